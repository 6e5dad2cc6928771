from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from ontarget.modelfile._checked_json import (
    check_plain,
    dump_json,
    json_memory,
    parse_json,
    parse_json_string,
)

from .containers import JSON
from .peaks import HAS_PEAKS, peaks


@given(value=JSON)
def test_what_is_dumped_is_parsed_back(value: object) -> None:
    check_plain(value)
    text = dump_json(value)
    assert text.isascii()
    assert parse_json(text, json_memory(text)) == value
    assert parse_json_string(json.dumps(text), 10**6) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("1 2", "Extra data"),
        ("[1,]", "Expecting value"),
        ('{"a":1,"b":2,"a":3}', "holds the key 'a' twice"),
        ('[{"x":{"":1,"":1}}]', "holds the key '' twice"),
        ("[NaN]", "holds NaN"),
        ("-Infinity", "holds -Infinity"),
        ("9" * 5_000, "4300"),
        ("[" * 5_000, "nested more than 32 deep"),
        ('{"":' * 5_000, "nested more than 32 deep"),
    ],
)
def test_odd_texts_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text, 10**8)


def test_a_text_that_may_outgrow_its_memory_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"may need \d+,000 bytes of memory where 1,000"):
        parse_json("[" * 2_000, 1_000)
    with pytest.raises(ValueError, match="may need 600,000 bytes"):
        parse_json_string('"\\u' + "0" * 99_997, 1_000)


def test_one_duplicate_among_many_keys_is_found_without_comparing_all_pairs() -> None:
    keys = ",".join(f'"{i}":0' for i in range(200_000))
    with pytest.raises(ValueError, match="holds the key '199999' twice"):
        parse_json("{" + keys + ',"199999":0}', 10**9)


@pytest.mark.parametrize("text", ["", "1", "{}", '"a', '"a" 1', '["a"]'])
def test_what_is_no_single_string_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no string|Unterminated|Extra data"):
        parse_json_string(text, 10**6)


# The dearest shapes: small things that take the fewest letters for the most memory.
SHAPES = {
    "lists": ("[", "[],", "[]]"),
    "lists of one": ("[", "[0],", "0]"),
    "objects": ("[", "{},", "0]"),
    "objects of one": ("[", '{"a":0},', "0]"),
    "objects of different keys": ("[", '{"#":0},', "0]"),
    "keys": ("{", '"#":0,', '"":0}'),
    "keys with lists": ("{", '"#":[],', '"":0}'),
    "wide keys": ("{", '"\\ud83d\\ude00#":0,', '"":0}'),
    "short strings": ("[", '"#",', "0]"),
    "wide strings": ("[", '"\\ud83d\\ude00",', "0]"),
    "integers": ("[", "1#000,", "0]"),
    "fractions": ("[", "#.5,", "0]"),
    "one long string": ('["', "aaaaaaaa", '"]'),
    "one long wide string": ('["', "aaaaaaaa", '\\ud83d\\ude00"]'),
    "one long string of escapes": ('["', "\\u00e9", '"]'),
}

PARSED = """
from pathlib import Path
from ontarget.modelfile._checked_json import check_plain, json_memory, parse_json

def task(path):
    text = Path(path).read_text()
    value = parse_json(text, 10**10)
    check_plain(value)
    return json_memory(text)
"""


@pytest.mark.skipif(not HAS_PEAKS, reason="reads the peak from /proc")
def test_no_text_takes_more_memory_than_was_foretold(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in SHAPES]
    for path in paths:
        first, each, last = SHAPES[path.name]
        # A dictionary has just been made larger at this many keys, so that half of it is empty.
        text = "".join([first, *(each.replace("#", str(i)) for i in range(176_000)), last])
        path.write_text(text)
    (tmp_path / "warm").write_text("[]")
    for path, (used, foretold) in zip(paths, peaks(PARSED, tmp_path / "warm", paths), strict=True):
        assert isinstance(foretold, int)
        assert foretold / 10 < used <= foretold + 2**20, path.name
