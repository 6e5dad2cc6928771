from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from ontarget import GoalMonitor, Target
from ontarget.episodes import Episodes

from .river import QUICK, call, river, told


def renamed(path: Path, names: dict[str, str]) -> Path:
    """The river's runs under other column names, as a CSV of a user's own."""
    table = Episodes.read(river().runs).take(range(60)).to_frame()
    table.rename(names).sort(names.get("episode", "episode")).write_csv(path)
    return path


def test_fit_says_what_it_guessed_and_how_to_override(tmp_path: Path) -> None:
    path = renamed(tmp_path / "log.csv", {"episode": "run", "step": "tick", "reward": "gain"})
    text = told(["fit", path, "-o", tmp_path / "m.ontarget", *QUICK])
    assert "columns    guessed by name: episode = run, step = tick, reward = gain\n" in text
    assert "not right? name the columns: --episode, --step, --reward" in text
    assert "ontarget evaluate" in text
    assert (tmp_path / "m.ontarget").exists()


def test_steps_may_count_from_one(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(60)).to_frame()
    table.with_columns(pl.col("step") + 1).write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget", *QUICK])
    assert "horizon 50; steps count from 1 in the log, and from 0 in all answers" in text
    model = tmp_path / "m.ontarget"
    arguments = ["fit", tmp_path / "log.csv", "-o", tmp_path / "n.ontarget", *QUICK, "--first-step"]
    assert "lacks step 0 of 0..50" in call([*arguments, "0"]).stderr
    told([*arguments, "1"])
    assert (tmp_path / "n.ontarget").read_bytes() == model.read_bytes()


def test_times_only_order_the_rows(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(60)).to_frame().sort("episode", "step")
    timed = table.with_columns(time=pl.col("step") * 0.5 + 0.25).drop("step")
    timed.write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget", *QUICK])
    assert "'time' has decimals, so it is a feature, not the step; each row is one step" in text
    timed.sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "mixed.csv")
    result = call(["fit", tmp_path / "mixed.csv", "-o", tmp_path / "n.ontarget"])
    assert result.exit_code == 1
    assert "do not rise within each episode" in result.stderr


def test_a_spoilt_step_is_told_by_its_reader(tmp_path: Path) -> None:
    rows = [f"1,{t},1.0" for t in range(150)] + ["2,x,1.0"]
    (tmp_path / "log.csv").write_text("\n".join(["run,step,reward", *rows]))
    result = call(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget"])
    assert result.exit_code == 1
    assert "step (column 'step') needs numbers, got the text 'x'" in result.stderr


def test_fit_answers_programs_in_json(tmp_path: Path) -> None:
    path = renamed(tmp_path / "log.csv", {"episode": "run"})
    answer = json.loads(told(["fit", path, "-o", tmp_path / "m.ontarget", *QUICK, "--json"]))
    assert answer["columns"] == {"episode": "run", "step": "step", "reward": "reward"}
    assert answer["learn"] + answer["assure"] == 60
    assert answer["bytes"] == (tmp_path / "m.ontarget").stat().st_size


def test_the_same_file_and_seed_give_the_same_model(tmp_path: Path) -> None:
    again = tmp_path / "again.ontarget"
    told(["fit", river().runs, "-o", again, "--policy", "the crew"])
    assert again.read_bytes() == river().model.read_bytes()


FIT = ["fit", "log.csv", "-o", "m.ontarget", "--episode", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nothing.parquet", "-o", "m.ontarget"], "nothing.parquet: no such file"),
        (["fit", "log.csv", "-o", "no/such/m.ontarget"], "no/such: no such folder"),
        (["fit", "log.csv", "-o", "m.ontarget"], "cannot tell which column holds the episode"),
        (["fit", "log.csv", "-o", "m.ontarget", "--episode", "z"], "no episode column 'z'"),
        ([*FIT, "--behavior", "x"], "the episodes have no feature"),
        (["fit", "log.xlsx", "-o", "m.ontarget"], "episodes are read from .parquet or .csv"),
        (["fit", "log.csv", "-o", "."], ". is a folder; name the file to write"),
        ([*FIT, "--preset", "x"], "`preset` needs 'default'"),
        ([*FIT, "--engine", "cloud"], "--engine needs one of local, dask, ray, got 'cloud'"),
        (
            [*FIT, "--reward-bounds", "3:1"],
            "--reward-bounds needs the least reward first and the most second",
        ),
        ([*FIT, "--reward-bounds", "1:6"], "--reward-bounds 1:6 do not hold"),
        (FIT, "too few episodes"),
        ([*FIT, "--model", "forst"], "--model needs one of distribution_regression, "),
        (
            [*FIT, "--reward", "y"],
            "no reward column 'y' among a, step, reward, x; pass --reward NAME",
        ),
        ([*FIT, "--address", "tcp://here"], "--address needs the engine dask or ray"),
        (["simulate", "chess", "-o", "x.csv"], "`domain` needs one of skirmish, smax, tamarisk"),
        (["simulate", "tamarisk", "--preset", "x", "-o", "x.csv"], "a preset of Tamarisk needs"),
        (["simulate", "tamarisk", "-o", "x.json"], "x.json needs to end in .parquet or .csv"),
        (["simulate", "tamarisk", "-o", "no/x.csv"], "no: no such folder; make it first"),
        (["inspect", "log.csv"], "not an ontarget model file"),
    ],
)
def test_a_mistake_exits_with_1_and_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},0,{i % 7}.0,{i % 3}.5" for i in range(10)]
    Path("log.csv").write_text("\n".join(["a,step,reward,x", *rows, ""]))
    Path("log.xlsx").write_text("")
    result = call(arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("ontarget: ")
    assert result.stderr.count("\n") == 1
    assert not Path("m.ontarget").exists()


def test_steps_that_few_runs_reach_have_a_probability_too(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(100)).to_frame()
    lasts = pl.col("step") < pl.when(pl.col("episode") < 4).then(9).otherwise(7)
    table.filter(lasts).write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget", *QUICK])
    assert "UNKNOWN" not in text
    assert GoalMonitor.load(tmp_path / "m.ontarget").fitted.answered.all()


def test_a_text_column_of_times_is_remarked_and_its_new_values_are_counted(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(100)).to_frame()
    table = table.with_columns(started=pl.format("2024-01-01T00:{}:00", "episode"))
    table.write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget", *QUICK])
    assert "'started' is text with 100 different values in 100 episodes" in text
    unseen = 20 * 50  # 80 of the 100 runs are learned from; the others' 50 rows each are new
    assert f"caution    {unseen:,} readings are of categories that no training episode had" in text


def test_the_targets_suggested_are_those_that_four_in_five_runs_met(tmp_path: Path) -> None:
    text = told(["fit", renamed(tmp_path / "log.csv", {}), "-o", tmp_path / "m.ontarget", *QUICK])
    low, high = re.search(r"targets: (\S+:) \(at least \S+\), (:\S+) \(at most", text).groups()
    outcomes = Episodes.read(tmp_path / "log.csv").outcomes
    for target in (low, high):
        assert 0.75 <= Target.parse(target).contains(outcomes).mean() <= 0.85


def test_rewards_of_one_sign_are_hinted_at_and_their_bounds_are_exact(tmp_path: Path) -> None:
    path, model = renamed(tmp_path / "log.csv", {}), tmp_path / "m.ontarget"
    text = told(["fit", path, "-o", model, *QUICK])
    assert "hint       no reward above 0 was seen" in text
    assert "pass --reward-bounds :0" in text
    target = Target.at_least(-60.0)
    state = Episodes.read(river().runs).at(0).states[0]
    for bounds, decided in ((None, False), (":0", True)):
        if bounds is not None:
            assert "hint" not in told(["fit", path, "-o", model, *QUICK, "--reward-bounds", bounds])
        watch = GoalMonitor.load(model).watch(target)
        watch.step(state)
        outlook = watch.step(state, -61.0)  # nothing can be earned back
        assert (outlook.decided, outlook.p == 0.0) == (decided, decided)


@pytest.mark.parametrize("bounds", ["x:0", "0", "1:2:3", ""])
def test_bounds_that_are_none_are_a_usage_mistake(bounds: str, tmp_path: Path) -> None:
    arguments = ["fit", river().runs, "-o", tmp_path / "m.ontarget", "--reward-bounds", bounds]
    result = call(arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "--reward-bounds needs LO:HI, LO: or :HI, or NAME=LO:HI" in result.stderr
    assert f"got '{bounds}'" in result.stderr


def test_runs_that_were_cut_off_can_count_as_the_worst_case(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).to_frame()
    cut = pl.col("episode").hash() % 25 == 0
    table = table.filter(~cut | (pl.col("step") < 30))
    table.with_columns(truncated=cut & (pl.col("step") == 29)).write_parquet(tmp_path / "r.parquet")
    model = tmp_path / "m.ontarget"
    arguments = ["fit", tmp_path / "r.parquet", "-o", model, *QUICK, "--censored"]
    text = told([*arguments, "worst-case"])
    assert "cut off, and each counts as the worst case" in text
    assert "of them cut off: each of these counts as one that met the target" in text
    assert "promises hold however such episodes would have ended" in told(["inspect", model])
    assert call([*arguments, "guess"]).exit_code == 1


def test_earlier_steps_are_read_and_told(tmp_path: Path) -> None:
    rows = [f"{i},{t},{(7 * i + t) % 5},{(i + t) % 3}" for i in range(60) for t in range(4)]
    log, model = tmp_path / "log.csv", tmp_path / "m.ontarget"
    log.write_text("\n".join(["episode,step,level,reward", *rows]))
    told(["fit", log, "--model", "marginal", "--history", "2", "-o", model])
    assert "level; also those of the 2 steps before, the rewards there" in told(["inspect", model])
    assert json.loads(told(["inspect", model, "--json"]))["history"] == 2
    result = call(["fit", log, "--history", "101", "-o", model])
    assert "`history` needs a whole number from 0 to 100, got 101" in result.stderr
