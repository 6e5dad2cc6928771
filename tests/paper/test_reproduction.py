"""The whole pipeline, in seconds."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ontarget import GoalMonitor, QuantileForest
from ontarget.paper import reproduction
from ontarget.paper.cases import CASES, CasePlan
from ontarget.paper.distance import DEFAULT, METHODS, UNIT, Method, methods_of
from ontarget.paper.distance_run import DistanceRun
from ontarget.paper.processes import Walk
from ontarget.paper.reproduction import reproduce
from paper.small import SMALL, TAMARISK

pytestmark = pytest.mark.slow  # every piece of the paper, however small, is fitted and drawn


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    shares: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DistanceRun, "cases", ("walk",))
        patch.setitem(CASES, "walk", CasePlan("Walk", Walk, (0, 27), None, n_states=40))
        small = Method(
            lambda: GoalMonitor(QuantileForest(n_trees=5), steps_per_model=10),
            calibrations=("common", "target"),
        )
        for name in methods_of("walk"):
            patch.setitem(METHODS, name, small)
        reproduce(SMALL, folder, distance=True, report=lambda _, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    return folder


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    reproduce(TAMARISK, folder, studies=False, figures=False)
    return folder


def test_results_have_every_item(out: Path) -> None:
    results = json.loads((out / "results.json").read_text())
    assert results["plan"]["quick"]
    for domain in ("skirmish", "tamarisk"):
        for mode in ("noise", "atoms"):
            found = results["domains"][domain][mode]
            assert len(found["coverage"]["each"]) == SMALL.partitions
            assert 0.0 <= found["ece"]["low"]["mean"] <= 1.0
        study = results["studies"][domain]
        assert {"PCQR", "CQR", "split conformal", "raw forest"} <= set(
            study["rivals"]["noise"]["intervals"]
        )
        assert {"PCQR", "raw forest", "conformal predictive system", "Venn–Abers"} <= set(
            study["rivals"]["atoms"]["scores"]
        )
        assert set(study["watches"]) == {"paper", "default"}
        assert set(study["default"]) == {"atoms"}  # a goal monitor adds no noise
        assert "0.1" in study["watches"]["paper"]["alarms"]


def test_distances_are_in_the_results_and_their_costs_in_the_times(out: Path) -> None:
    results = json.loads((out / "results.json").read_text())["distance"]
    costs = json.loads((out / "timing.json").read_text())["distance"]
    assert set(results) == set(costs) == {"walk"}
    methods = results["walk"]["methods"]
    assert len(methods[DEFAULT]["excess"]["each"]) == SMALL.partitions
    assert len(methods["rival: Venn–Abers"]["absolute_by_step"]) == len(results["walk"]["steps"])
    assert costs["walk"]["step_us"][DEFAULT] > 0.0
    assert costs["walk"]["fit_ms"][UNIT] > 0.0
    assert "Walk: excess Brier score" in (out / "index.html").read_text()


def test_results_are_sorted_and_hold_no_time(out: Path) -> None:
    text = (out / "results.json").read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"
    assert "seconds" not in text


def test_every_figure_is_there_twice(out: Path) -> None:
    names = sorted(path.name for path in (out / "figures").iterdir())
    assert len(names) == 2 * (2 * 6 + 1)
    assert {"distance.svg", "ece-tamarisk.svg", "reliability-skirmish.png"} <= set(names)


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
    assert text.count("<svg") == 2 * 6 + 1


def test_the_page_says_that_it_is_quick_and_what_is_not_the_authors(out: Path) -> None:
    text = (out / "index.html").read_text()
    assert "A quick run." in text
    assert "surrogate simulator" in text
    assert "commit" in text


def test_a_stopped_run_goes_on_to_the_same_results(
    plain_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, calls = reproduction.run_partition, []

    def stops(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return honest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reproduction, "run_partition", stops)
    with pytest.raises(KeyboardInterrupt):
        reproduce(TAMARISK, tmp_path, studies=False, figures=False)
    assert not (tmp_path / "results.json").exists()
    reproduce(TAMARISK, tmp_path, studies=False, figures=False)
    assert len(calls) == 5  # 4 parts, one of them twice
    assert (tmp_path / "results.json").read_bytes() == (plain_run / "results.json").read_bytes()


def test_a_finished_run_still_knows_how_long_it_took(plain_run: Path) -> None:
    before = json.loads((plain_run / "timing.json").read_text())["seconds"]
    assert before["noise"]["wall"] > 0.0
    reproduce(TAMARISK, plain_run, studies=False, figures=False)
    assert json.loads((plain_run / "timing.json").read_text())["seconds"] == before


def test_a_finished_run_simulates_nothing(plain_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (plain_run / "results.json").read_bytes()
    monkeypatch.setattr(reproduction, "simulated", None)
    reproduce(TAMARISK, plain_run, studies=False, figures=False)
    assert (plain_run / "results.json").read_bytes() == before


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_change_nothing(
    threads: str, plain_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONTARGET_THREADS", threads)
    reproduce(TAMARISK, tmp_path, studies=False, figures=False)
    assert (tmp_path / "results.json").read_bytes() == (plain_run / "results.json").read_bytes()


def test_another_seed_gives_other_numbers(plain_run: Path, tmp_path: Path) -> None:
    reproduce(TAMARISK.with_seed(1), tmp_path, studies=False, figures=False)
    one, other = (
        json.loads((folder / "results.json").read_text())["domains"]["tamarisk"]["noise"]["target"]
        for folder in (plain_run, tmp_path)
    )
    assert one != other
