from __future__ import annotations

import json
from pathlib import Path

import pytest

from ontarget import GoalMonitor, Target
from ontarget.models import QuantileForest
from tests.walks import walks

from .river import call, told


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model file and new runs."""
    folder = tmp_path_factory.mktemp("explain")
    monitor = GoalMonitor(QuantileForest(n_trees=8), steps_per_model=3)
    monitor.fit(walks(150), progress=False).save(folder / "walk.ontarget")
    walks(20, seed=1).write(folder / "new.parquet")
    return folder / "walk.ontarget", folder / "new.parquet"


def test_explain_prints_what_the_monitor_says(files: tuple[Path, Path], tmp_path: Path) -> None:
    model, new = files
    asked = ["explain", model, new, "--run", "run-1-3", "--step", "2", "--target", "0:"]
    one = walks(20, seed=1).take([3])
    monitor = GoalMonitor.load(model)
    here, before = one.at(2), one.at(1)
    why = monitor.explain(
        2,
        here.states[0],
        here.behavior[0],
        Target.at_least(0.0),
        before=(before.states[0], before.behavior[0]),
    )
    assert told([*asked, "--figure", tmp_path / "why.png"]).strip() == str(why)
    assert json.loads(told([*asked, "--json"])) == json.loads(json.dumps(why.to_dict()))
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    first = told([*asked[:6], "0", *asked[7:]])
    assert first.startswith("step 0: p = ")
    assert "what moved p" not in first


@pytest.mark.parametrize(
    ("run", "step", "said"),
    [("nobody", "2", "no episode 'nobody'"), ("run-1-3", "6", "--step needs 0 to 5")],
)
def test_a_run_or_step_that_is_not_there_is_refused(
    run: str, step: str, said: str, files: tuple[Path, Path]
) -> None:
    found = call(["explain", *files, "--run", run, "--step", step, "--target", "0:"])
    assert found.exit_code == 1
    assert said in found.output
