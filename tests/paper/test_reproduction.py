"""The whole pipeline, in seconds."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ontarget.paper.reproduction import reproduce
from paper.small import SMALL, TAMARISK

pytestmark = pytest.mark.slow  # every piece of the paper, however small, is fitted and drawn


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    shares: list[float] = []
    reproduce(SMALL, folder, report=lambda _, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    return folder


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    reproduce(TAMARISK, folder, figures=False)
    return folder


def test_results_have_every_item(out: Path) -> None:
    results = json.loads((out / "results.json").read_text())
    assert results["plan"]["quick"]
    for domain in ("skirmish", "tamarisk"):
        for mode in ("noise", "atoms"):
            found = results["domains"][domain][mode]
            assert len(found["coverage"]["each"]) == SMALL.partitions
            assert 0.0 <= found["ece"]["low"]["mean"] <= 1.0


def test_results_are_sorted_and_hold_no_time(out: Path) -> None:
    text = (out / "results.json").read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"
    assert "seconds" not in text


def test_every_figure_is_there_twice(out: Path) -> None:
    names = sorted(path.name for path in (out / "figures").iterdir())
    assert len(names) == 2 * 2 * 6
    assert {"ece-tamarisk.svg", "reliability-skirmish.png"} <= set(names)


def test_the_page_is_well_formed_and_refers_to_nothing_outside(out: Path) -> None:
    text = (out / "index.html").read_text()
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert root.tag == "{http://www.w3.org/1999/xhtml}html"
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.endswith(("href", "src", "action", "data")):
                assert value.startswith("#"), f"{name}={value}"
    assert not re.search(r"url\((?!#)|@import|<script|<link", text)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert text.count("<svg") == 2 * 6


def test_the_page_says_that_it_is_quick_and_what_is_not_the_authors(out: Path) -> None:
    text = (out / "index.html").read_text()
    assert "A quick run." in text
    assert "surrogate simulator" in text
    assert "commit" in text


def test_a_run_says_how_long_it_took(out: Path) -> None:
    timing = json.loads((out / "timing.json").read_text())
    assert set(timing["seconds"]) == {"simulation", "noise", "exact atoms", "figures"}
    assert timing["seconds"]["noise"]["wall"] > 0.0


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_change_nothing(
    threads: str, plain_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONTARGET_THREADS", threads)
    reproduce(TAMARISK, tmp_path, figures=False)
    assert (tmp_path / "results.json").read_bytes() == (plain_run / "results.json").read_bytes()


def test_another_seed_gives_other_numbers(plain_run: Path, tmp_path: Path) -> None:
    reproduce(TAMARISK.with_seed(1), tmp_path, figures=False)
    one, other = (
        json.loads((folder / "results.json").read_text())["domains"]["tamarisk"]["noise"]["target"]
        for folder in (plain_run, tmp_path)
    )
    assert one != other
