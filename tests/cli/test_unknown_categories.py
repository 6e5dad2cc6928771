"""Commands name the column and the value of each category that no learning run had."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .river import QUICK, told


def log(path: Path, *, seed: int, odd: tuple[str, ...] = (), gear: int = 1, n: int = 120) -> Path:
    """Runs of two steps with an activity and a gear; the last runs have odd ones."""
    rng = np.random.default_rng(seed)
    lines = ["run,step,activity,gear,reward"]
    for i in range(n):
        late = i >= n - 3 * len(odd)
        activity = odd[(n - 1 - i) // 3] if late else ("Check", "Decide")[i % 2]
        own = gear if late else 1 + i % 3
        lines += [f"{seed}{i:04d},{t},{activity},{own},{rng.normal():.3f}" for t in (0, 1)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    arguments = ["-o", folder / "m.ontarget", "--categorical", "gear", *QUICK]
    told(["fit", log(folder / "past.csv", seed=1), *arguments])
    return folder / "m.ontarget"


def test_evaluate_names_them_in_text_json_and_report(model: Path, tmp_path: Path) -> None:
    new = log(tmp_path / "new.csv", seed=2, odd=("Wait", "Escalate\x07"), gear=-1)
    asked = ["evaluate", model, new, "--target", "0:"]
    text = told([*asked, "--report", tmp_path / "report.html"])
    page = (tmp_path / "report.html").read_text()
    for shown in (" ".join(text.split()), page):
        for word in ("activity:", "Wait", "gear:", "-1", "(12 readings)"):
            assert word in shown
    assert "\x07" not in text + page
    found = json.loads(told([*asked, "--json"]))
    assert found["unseen"] == 24
    assert found["unknown_categories"] == [
        {"feature": "activity", "readings": 12, "values": {"Escalate\x07": 6, "Wait": 6}},
        {"feature": "gear", "readings": 12, "values": {"-1": 12}},
    ]


@pytest.mark.parametrize("prepared", [False, True])
def test_fit_names_those_of_the_runs_held_out(tmp_path: Path, prepared: bool) -> None:
    path = log(tmp_path / "past.csv", seed=1)
    lines = path.read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    each = [[*row[:2], f"only-{row[0]}", *row[3:]] for row in rows]  # each run has its own
    path.write_text("\n".join([lines[0], *(",".join(row) for row in each)]) + "\n")
    if prepared:
        told(["prepare", path, "-o", tmp_path / "runs"])
        path = tmp_path / "runs"
    arguments = ["-o", tmp_path / "m.ontarget", *QUICK]
    text = " ".join(told(["fit", path, *arguments]).split())
    assert "activity: 'only-1" in text
    assert "(48 readings)" in text
    found = json.loads(told(["fit", path, *arguments, "--json"]))["unknown_categories"]
    assert [(one["feature"], one["readings"]) for one in found] == [("activity", 48)]
    assert all(value.startswith("only-1") for value in found[0]["values"])


def test_watch_answers_an_unknown_number_as_a_missing_one(model: Path) -> None:
    states = [{"activity": "Check", "gear": gear} for gear in (7, -1, 1.5, 1e300, None)]
    states += [{"activity": activity, "gear": 1} for activity in ("Wait", None)]
    lines = "".join(
        json.dumps({"agent": str(i), "state": one}) + "\n" for i, one in enumerate(states)
    )
    said = told(["watch", model, "--target", "0:", "--alarm-below", "0.2"], input=lines)
    answers = [json.loads(one) for one in said.splitlines()]
    told_of = [one.get("unseen") for one in answers]
    assert told_of[:4] == [{"gear": one} for one in ("7", "-1", "1.5", "1e+300")]
    assert told_of[4:] == [None, {"activity": "Wait"}, None]
    assert len({one["p"] for one in answers[:5]}) == 1
    assert answers[5]["p"] == answers[6]["p"]
