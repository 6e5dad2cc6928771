"""The study of models: what is measured, what is kept, what is shown."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ontarget.models import Marginal, QuantileForest
from ontarget.paper.cases import CASES, Case, CasePlan, build_case
from ontarget.paper.keeping import Keeper
from ontarget.paper.models import running, study
from ontarget.paper.models.page import overview_table, process_tables
from ontarget.paper.plan import FULL, QUICK, Plan
from ontarget.paper.processes import Walk

PLAN = Plan(episodes=500, train=150, calibrate=150, partitions=2, quick=True)
FEW = {
    study.FOREST: partial(QuantileForest, 8, 8),
    "stacked forest (the default's)": partial(QuantileForest, 12, 8),
    "boosted quantiles": partial(QuantileForest, 8, 20),
    "linear quantiles": Marginal,
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "walk", CasePlan("Walk", Walk, (0, 3, 20), None, n_states=60))
    monkeypatch.setattr(study, "MODELS", FEW)
    monkeypatch.setattr(running, "MODELS", FEW)


@pytest.fixture
def case(few: None, tmp_path: Path) -> Case:
    return build_case("walk", Keeper(tmp_path, {}), n_episodes=500)


def test_intervals_cover_in_every_way_and_probabilities_are_near_the_truth(case: Case) -> None:
    found = study.measure_model(PLAN, study.FOREST, 0, case)
    for kind in study.INTERVALS:
        covered = np.array(found["intervals"][kind])[:, 0]
        assert covered.shape == (3,)
        assert (covered > 0.65).all()
    blunt = study.measure_model(PLAN, "linear quantiles", 0, case)
    for kind in study.PROBABILITIES:
        assert found["forecasts"][kind]["excess"] < blunt["forecasts"][kind]["excess"]
        assert found["forecasts"][kind]["absolute"] < 0.2
    assert found["forecasts"]["PCQR⁻¹"] != found["forecasts"]["raw"]
    again = study.measure_model(PLAN, study.FOREST, 0, case)
    assert again["forecasts"] == found["forecasts"]


def test_widths_are_multiples_of_those_of_the_papers_forest(case: Case) -> None:
    each = {name: [study.measure_model(PLAN, name, 0, case)] for name in FEW}
    found = study.summarize_models(each)
    assert found[study.FOREST]["intervals"]["PCQR"]["width"]["mean"] == 1.0
    assert found["linear quantiles"]["intervals"]["PCQR"]["width"]["mean"] > 1.0


def test_a_stopped_run_goes_on_and_the_page_shows_every_model(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running._Run, "cases", ("walk",))
    done = running.study_models(PLAN, tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "A quick run" in page
    assert "in one random partition, at eight steps" in page
    assert all(name.replace("'", "&#x27;") in page for name in FEW)
    assert (tmp_path / "figures" / "models-excess.png").stat().st_size > 1_000
    table = overview_table(done.results["processes"])
    assert sum("*" in cell for cell in table.rows[0]) == 1
    costs = done.timing["processes"]["walk"]
    for each in process_tables("walk", done.results["processes"]["walk"], costs):
        assert len(each.rows) == len(FEW)
        assert all(len(row) == len(each.head) for row in each.rows)
    # Nothing is measured a second time.
    monkeypatch.setattr(running, "measure_model", pytest.fail)
    assert running.study_models(PLAN, tmp_path).results == done.results


def test_the_study_has_sizes_of_its_own() -> None:
    assert (study.sized(FULL).train, study.sized(FULL).partitions) == (1_500, 2)
    assert study.sized(QUICK).partitions == 1


def test_without_pytorch_the_network_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "find_spec", lambda name: None)
    assert "quantile network" not in study.models_here()
    monkeypatch.setattr(study, "find_spec", lambda name: object())
    assert "quantile network" in study.models_here()
