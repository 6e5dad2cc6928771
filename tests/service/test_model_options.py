"""A monitor that recalls or is a network answers alike wherever it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import QuantileForest, QuantileNetwork
from ontarget.models.network import _fitting
from ontarget.service.contracts import ContractSpec
from ontarget.service.service import Service
from ontarget.service.web.api import create_app
from tests.attacks.monitors import drawn_weights
from tests.cli.river import call, told

HORIZON = 5
TARGET = Target.at_least(0.0)
FOREST = QuantileForest(n_trees=6, min_leaf=5)
MONITORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a forest recalls": (FOREST, {"steps_per_model": 5, "history": 2}),
    "a network recalls": (QuantileNetwork(4, n_folds=2), {"history": 2}),
}


def carts(n: int, seed: int) -> Episodes:
    """Runs of which the place is seen; the speed, which is not, decides what they earn."""
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(n, 1)) + rng.normal(scale=0.5, size=(n, HORIZON))
    places = np.cumsum(moves, axis=1) - moves
    return Episodes.from_arrays(places[:, :, None], moves, ids=[f"{seed}-{i}" for i in range(n)])


def messages(run: Episodes) -> list[dict[str, Any]]:
    """The steps of a run of one episode, as a stream sends them."""
    found: list[dict[str, Any]] = []
    for t in range(HORIZON):
        reward = {"reward": float(run.rewards_at(t - 1)[0])} if t else {}
        found.append({"state": {"x0": float(run.at(t).states[0, 0])}, **reward})
    return found


def served(model: Path, folder: Path, run: list[dict[str, Any]]) -> list[float]:
    """What the service says, which is started again in the middle of the run."""
    spec = ContractSpec(name="carts", model=str(model), target="0:", false_alarm_rate=0.2)
    p: list[float] = []
    for part in (range(3), range(3, HORIZON)):
        service = Service(str(folder / "service.db"), [spec], models=folder / "models")
        with TestClient(create_app(service), base_url="http://127.0.0.1:8400") as client:
            for t in part:
                sent = {"agent": "a", "run": "1", "step": t, **run[t]}
                p.append(client.post("/v1/steps", json=sent).json()["p"])
    return p


@pytest.mark.parametrize("name", MONITORS)
def test_a_log_a_watch_a_fleet_the_command_line_and_the_service_agree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fitting, "train", drawn_weights)  # serving needs no PyTorch
    chosen, options = MONITORS[name]
    path, new = tmp_path / "carts.ontarget", carts(1, seed=1)
    fitted = GoalMonitor(chosen, min_calibration=5, **options).fit(carts(100, 0), progress=False)
    fitted.save(path)
    monitor, run = GoalMonitor.load(path), messages(new)
    assert monitor.history == options.get("history", 0)
    wanted = monitor.evaluate(new, TARGET).p[:, 0].tolist()
    assert wanted == fitted.evaluate(new, TARGET).p[:, 0].tolist()
    assert len(set(wanted)) > 1
    watch, fleet = monitor.watch(TARGET), monitor.fleet(TARGET, ["a"])
    for t, sent in enumerate(run):
        reward = sent.get("reward", 0.0)
        assert watch.step(sent["state"], reward).p == wanted[t]
        together = fleet.step([[sent["state"]["x0"]]], [reward], agents=["a"])
        assert together.p.tolist() == [wanted[t]]
    assert served(path, tmp_path, run) == wanted
    stream = "".join(json.dumps(sent) + "\n" for sent in run)
    result = call(["watch", path, "--target", "0:", "--alarm-below", "0.1"], input=stream)
    assert [json.loads(line)["p"] for line in result.stdout.splitlines()] == wanted
    carts(40, seed=2).write(tmp_path / "new.csv")
    said = json.loads(told(["evaluate", path, tmp_path / "new.csv", "--target", "0:", "--json"]))
    brier = monitor.evaluate(Episodes.read(tmp_path / "new.csv"), TARGET).brier().value
    assert said["brier"]["value"] == pytest.approx(brier, rel=1e-9)
