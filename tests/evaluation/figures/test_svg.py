from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib as mpl
import pytest

from ontarget.evaluation.figures import figure_bytes, svg_of, theme_css
from ontarget.evaluation.figures.style import DARK, LIGHT
from tests.evaluation.figures.gallery import EVERY, ORDINARY, drawn, written

ROOT = str(Path(__file__).parents[3])


@pytest.mark.parametrize("name", EVERY)
def test_svg_is_well_formed_and_refers_only_to_itself(name) -> None:
    text = written(name)
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert root.get("role") == "img"
    assert root.get("aria-label")
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert max(Counter(ids).values(), default=0) <= 1
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text)) <= set(ids)
    assert "nan" not in text.lower().replace("opacity", "")


@pytest.mark.parametrize("name", ORDINARY)
def test_svg_is_the_same_whenever_it_is_drawn(name) -> None:
    assert svg_of(drawn(name)) == written(name)
    assert svg_of(ORDINARY[name]()) == written(name)


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_file_of_a_figure_is_the_same_whenever_it_is_drawn(kind, start) -> None:
    content = figure_bytes(drawn("ece"), kind)
    assert content.startswith(start)
    assert content == figure_bytes(ORDINARY["ece"](), kind)


def test_writing_a_figure_in_another_form_does_not_move_it() -> None:
    figure = ORDINARY["alarm"]()
    places = [axes.get_position().bounds for axes in figure.axes]
    figure.savefig(io.BytesIO(), format="png", dpi=37)
    figure.savefig(io.BytesIO(), format="pdf")
    assert [axes.get_position().bounds for axes in figure.axes] == places


def test_svg_is_the_same_in_another_process() -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        "from tests.evaluation.figures.gallery import ORDINARY\n"
        "from ontarget.evaluation.figures import svg_of\n"
        "sys.stdout.write(svg_of(ORDINARY['ece']()))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12", "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == written("ece")


def test_svg_holds_no_date_and_no_style_for_other_pictures() -> None:
    text = written("pit")
    assert "<metadata" not in text
    assert "<style" not in text
    assert "<?xml" not in text


def test_figures_of_one_page_share_no_id() -> None:
    texts = [written(name) for name in ORDINARY]
    ids = [name for text in texts for name in re.findall(r' id="([^"]+)"', text)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("dark", [False, True])
def test_every_colour_is_a_variable_that_the_page_may_set(dark) -> None:
    for name in ORDINARY:
        bare = re.sub(r"var\(--ontarget-[a-z]+, #[0-9a-f]{6}\)", "", written(name, dark=dark))
        assert not re.search(r"(?:fill|stroke): #[0-9a-f]{6}", bare)


def test_style_rules_set_every_variable_for_light_dark_and_print() -> None:
    light, dark, paper, size = theme_css().splitlines()
    assert "prefers-color-scheme: dark" in dark
    assert "@media print" in paper
    assert "max-width" in size
    for role in LIGHT.roles():
        assert f"--ontarget-{role}: {LIGHT.roles()[role]};" in light
        assert f"--ontarget-{role}: {LIGHT.roles()[role]};" in paper
        assert f"--ontarget-{role}: {DARK.roles()[role]};" in dark


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_stand_out_from_the_paper(theme) -> None:
    ground = luminance(theme.paper)

    def contrast(color: str) -> float:
        low, high = sorted((ground, luminance(color)))
        return (high + 0.05) / (low + 0.05)

    assert contrast(theme.ink) >= 7.0  # WCAG AAA for text
    assert contrast(theme.muted) >= 4.5
    assert all(contrast(c) >= 3.0 for c in (theme.blue, theme.vermilion, theme.green, theme.purple))
    assert len(set(theme.roles().values())) == len(theme.roles())


def test_drawing_leaves_the_callers_settings_alone_and_ignores_them() -> None:
    plain = written("episodes")
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "axes.labelpad": 40}):
        before = dict(mpl.rcParams)
        assert svg_of(ORDINARY["episodes"]()) == plain
        assert dict(mpl.rcParams) == before


def test_threads_may_draw_at_once() -> None:
    plain = written("mean")
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: svg_of(ORDINARY["mean"]()), range(4)))
    assert set(found) == {plain}
    assert dict(mpl.rcParams) == before


def test_importing_figures_loads_no_matplotlib_and_drawing_no_pyplot() -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        "import ontarget.evaluation.figures\n"
        "print('matplotlib' in sys.modules)\n"
        "from tests.evaluation.figures.gallery import ORDINARY\n"
        "ORDINARY['pit']()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
