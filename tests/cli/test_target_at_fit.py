"""A target given to `ontarget fit`: the default of every later command and of the service."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from ontarget import GoalMonitor, Target

from .river import QUICK, call, told
from .test_goals import write as write_goals

GOAL = "gain >= -1 & spent <= 3"


@cache
def files() -> dict[str, Path]:
    """Recorded runs, and two model files: one fitted with a target, one without."""
    folder = Path(mkdtemp(prefix="ontarget-aimed-"))
    names = ("runs.parquet", "new.parquet", "aimed.ontarget", "plain.ontarget")
    found = {Path(name).stem: folder / name for name in names}
    told(["simulate", "tamarisk", "-n", "200", "-o", found["runs"]])
    told(["simulate", "tamarisk", "-n", "60", "--seed", "5", "-o", found["new"]])
    told(["fit", found["runs"], "-o", found["aimed"], *QUICK, "--target", "-60:"])
    told(["fit", found["runs"], "-o", found["plain"], *QUICK])
    return found


COMMANDS: dict[str, Any] = {
    "evaluate": lambda at, model: ["evaluate", at[model], at["new"], "--json"],
    "drift": lambda at, model: ["drift", at[model], at["new"], "--json"],
    "explain": lambda at, model: ["explain", at[model], at["new"], "--run", "4", "--json"],
    "compare": lambda at, model: ["compare", at[model], at[model], at["new"], "--json"],
    "watch": lambda at, model: ["watch", at[model], "--replay", at["new"], "--run", "4"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_needs_no_target_if_the_model_has_one(name: str) -> None:
    aimed = COMMANDS[name](files(), "aimed")
    same = told(aimed).replace("aimed.ontarget", "plain.ontarget")
    assert same == told([*COMMANDS[name](files(), "plain"), "--target", "-60:"])
    other = told([*aimed, "--target", "-70:"]).replace("aimed.ontarget", "plain.ontarget")
    assert other == told([*COMMANDS[name](files(), "plain"), "--target", "-70:"]) != same


@pytest.mark.parametrize("name", COMMANDS)
def test_without_any_target_a_command_says_how_to_give_one(name: str) -> None:
    refused = call(COMMANDS[name](files(), "plain"))
    assert refused.exit_code == 2
    assert "--target" in refused.output
    assert "ontarget fit --target" in refused.output


def test_inspect_shows_the_target() -> None:
    assert json.loads(told(["inspect", files()["aimed"], "--json"]))["target"] == "[-60, inf)"
    assert "\ntarget     [-60, inf)\n" in told(["inspect", files()["aimed"]])
    assert "\ntarget" not in told(["inspect", files()["plain"]])


def test_models_with_different_targets_are_compared_for_a_target_that_is_given(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other.ontarget"
    told(["fit", files()["runs"], "-o", other, *QUICK, "--target", "-70:"])
    asked = ["compare", files()["aimed"], other, files()["new"]]
    assert call(asked).exit_code == 2
    told([*asked, "--target", "-60:"])
    told(["compare", files()["plain"], other, files()["new"], "--target", "-60:"])


def test_a_goal_is_kept_as_a_target_is(tmp_path: Path) -> None:
    runs, new, model = (tmp_path / name for name in ("runs.csv", "new.csv", "goal.ontarget"))
    write_goals(runs, 120, 1)
    write_goals(new, 40, 2)
    each = ("--behavior", "gain=sum", "--behavior", "spent=sum:energy")
    told(["fit", runs, "-o", model, *QUICK, *each, "--target", GOAL])
    assert json.loads(told(["inspect", model, "--json"]))["target"] == GOAL
    assert told(["evaluate", model, new]) == told(["evaluate", model, new, "--target", GOAL])
    said = told(
        ["serve", model, "--database", tmp_path / "a.db", "--check", "--alarm-below", "0.2"]
    )
    assert said.startswith(f"contract   goal@1: {GOAL}")


def test_a_contract_without_a_target_takes_that_of_its_model(tmp_path: Path) -> None:
    here = ("--database", tmp_path / "a.db", "--check", "--alarm-below", "0.2")
    assert told(["serve", files()["aimed"], *here]).startswith("contract   aimed@1: -60:")
    # The same contract written out is no new version.
    said = told(["serve", files()["aimed"], *here, "--target", "-60:"])
    assert said.startswith("contract   aimed@1: -60:")
    refused = call(["serve", files()["plain"], *here])
    assert refused.exit_code == 1
    assert "target" in refused.output
    table = tmp_path / "contracts.toml"
    table.write_text(f'[[contract]]\nname = "a"\nmodel = "{files()["aimed"]}"\nalarm_below = 0.2\n')
    said = told(["serve", "--contracts", table, "--database", tmp_path / "b.db", "--check"])
    assert said.startswith("contract   a@1: -60:")


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target(-60.123456789, -30.0) | Target.at_least(-10.5), "-60.123456789:-30,-10.5:"),
        (Target(-60.0, -30.0, closed="left"), None),
    ],
)
def test_a_contract_has_exactly_the_target_of_its_model(
    target: Target, text: str | None, tmp_path: Path
) -> None:
    model = tmp_path / "own.ontarget"
    GoalMonitor("marginal").fit(files()["runs"], target=target, progress=False).save(model)
    asked = ["serve", model, "--database", tmp_path / "a.db", "--check", "--alarm-below", "0.2"]
    if text is None:  # no text LO:HI leaves a bound out
        assert call(asked).exit_code == 1
    else:
        assert f": {text}, alarm" in told(asked)
