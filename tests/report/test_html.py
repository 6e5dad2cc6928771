"""The pieces of a page: escaped, well-formed, and told apart by the style sheet."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from ontarget.errors import InputError
from ontarget.report import Table, figure, page, pair, paragraph, points, section
from refusals import refuses

NASTY = "x & y <b>"


def test_plain_text_is_escaped_in_every_piece() -> None:
    table = Table((NASTY, "a"), [(NASTY, NASTY)], NASTY).html()
    pieces = [
        table,
        paragraph(NASTY),
        points([NASTY]),
        figure("<svg/>", NASTY, title=NASTY),
        section(NASTY, []),
    ]
    text = page(NASTY, pieces)
    assert "<b>" not in text
    assert text.count("x &amp; y &lt;b&gt;") == 4 + 1 + 1 + 2 + 1 + 1
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_numbers_stand_to_the_right_and_the_first_column_names_its_row() -> None:
    text = Table(("", "n"), [("first", "1")], numbers=[1]).html()
    assert '<th scope="row">first</th><td class="number">1</td>' in text
    assert '<th scope="col" class="number">n</th>' in text


def test_a_row_of_another_width_is_refused() -> None:
    with refuses(InputError, None, 2, ("one",)):
        Table(("a", "b"), [("one",)])


def test_every_class_that_a_piece_uses_has_a_rule() -> None:
    pieces = [Table(("a", "b"), [("1", "2")], "c", numbers=[1], sentences=True).html()]
    pieces += [paragraph("p", "note"), points(["p"]), pair(figure("<svg/>"))]
    style, body = page("t", pieces).split("</style>")
    for name in set(re.findall(r'class="(\w+)"', body)):
        assert f".{name}" in style, name


def test_a_number_stays_with_its_per_cent_sign() -> None:
    for piece in (paragraph("at 5 %"), points(["at 5 %"]), figure("<svg/>", "at 5 %")):
        assert "5\u00a0%" in piece


def test_a_tables_caption_is_escaped_and_left_out_if_empty() -> None:
    assert "<caption>&lt;b&gt;</caption>" in Table(["a"], [["1"]], caption="<b>").html()
    assert "<caption>" not in Table(["a"], [["1"]]).html()
