from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ontarget.cli.columns import guess
from ontarget.episodes import Episodes
from ontarget.errors import EpisodesError

from .river import call, river, told


def renamed(path: Path, names: dict[str, str]) -> Path:
    """The river's runs under other column names, as a CSV of a user's own."""
    table = Episodes.read(river().runs).take(range(60)).to_frame()
    table.rename(names).sort(names.get("episode", "episode")).write_csv(path)
    return path


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["run", "tick", "speed", "gain"], {"episode": "run", "step": "tick", "reward": "gain"}),
        (["id", "t", "x", "r"], {"episode": "id", "step": "t", "reward": "r"}),
        (
            ["Episode ID", "Time Step", "Reward", "done"],
            {
                "episode": "Episode ID",
                "step": "Time Step",
                "reward": "Reward",
                "terminated": "done",
            },
        ),
        # The likelier name wins, wherever it stands.
        (["id", "episode", "step", "reward"], {"episode": "episode", "step": "step"}),
    ],
)
def test_columns_are_guessed_by_common_names(columns, found) -> None:
    assert found.items() <= guess(columns, {}).options.items()


def test_what_is_given_is_not_guessed() -> None:
    options = guess(["run", "t", "reward", "gain"], {"reward": "gain", "features": ["t"]}).options
    assert options == {"episode": "run", "step": None, "reward": "gain", "features": ["t"]}


def test_another_candidate_is_remarked() -> None:
    remarks = guess(["run", "trial", "step", "reward"], {}).remarks
    assert remarks == ("'trial' could be the episode too; it is a feature now",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a", "step", "reward"], "pass --episode NAME"),
        (["run", "step", "b"], "pass --reward NAME or --behavior NAME"),
    ],
)
def test_what_cannot_be_guessed_names_the_option(columns, message) -> None:
    with pytest.raises(EpisodesError, match=message):
        guess(columns, {})


def test_a_run_judged_by_a_column_needs_no_reward() -> None:
    options = guess(["run", "step", "height"], {"behavior": "height"}).options
    assert "reward" not in options


def test_fit_says_what_it_guessed_and_how_to_override(tmp_path: Path) -> None:
    path = renamed(tmp_path / "log.csv", {"episode": "run", "step": "tick", "reward": "gain"})
    text = told(["fit", path, "-o", tmp_path / "m.ontarget"])
    assert "episode = run, step = tick, reward = gain" in text
    assert "pass --episode, --step, --reward" in text
    assert "ontarget evaluate" in text
    assert (tmp_path / "m.ontarget").exists()


def test_steps_may_count_from_one(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(60)).to_frame()
    table.with_columns(pl.col("step") + 1).write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget"])
    assert "steps count from 1" in text


def test_times_only_order_the_rows(tmp_path: Path) -> None:
    table = Episodes.read(river().runs).take(range(60)).to_frame().sort("episode", "step")
    timed = table.with_columns(time=pl.col("step") * 0.5 + 0.25).drop("step")
    timed.write_csv(tmp_path / "log.csv")
    text = told(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget"])
    assert "'time' is no whole number: rows count as they stand" in text
    timed.sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "mixed.csv")
    result = call(["fit", tmp_path / "mixed.csv", "-o", tmp_path / "n.ontarget"])
    assert result.exit_code == 1
    assert "does not rise within each episode" in result.stderr


def test_a_spoilt_step_is_told_by_its_reader(tmp_path: Path) -> None:
    rows = [f"1,{t},1.0" for t in range(150)] + ["2,x,1.0"]
    (tmp_path / "log.csv").write_text("\n".join(["run,step,reward", *rows]))
    result = call(["fit", tmp_path / "log.csv", "-o", tmp_path / "m.ontarget"])
    assert result.exit_code == 1
    assert "step (column 'step') needs numbers, got the text 'x'" in result.stderr


def test_fit_answers_programs_in_json(tmp_path: Path) -> None:
    path = renamed(tmp_path / "log.csv", {"episode": "run"})
    answer = json.loads(told(["fit", path, "-o", tmp_path / "m.ontarget", "--json"]))
    assert answer["columns"] == {"episode": "run", "step": "step", "reward": "reward"}
    assert answer["train"] + answer["calibrate"] + answer["assure"] == 60
    assert answer["bytes"] == (tmp_path / "m.ontarget").stat().st_size


def test_the_same_file_and_seed_give_the_same_model(tmp_path: Path) -> None:
    again = tmp_path / "again.ontarget"
    told(["fit", river().runs, "-o", again, "--policy", "the crew"])
    assert again.read_bytes() == river().model.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nothing.parquet", "-o", "m.ontarget"], "nothing.parquet: no such file"),
        (["fit", "log.csv", "-o", "no/such/m.ontarget"], "no/such: no such folder"),
        (["fit", "log.csv", "-o", "m.ontarget"], "cannot tell which column holds the episode"),
        (["fit", "log.csv", "-o", "m.ontarget", "--episode", "x"], "no episode column 'x'"),
        (["fit", "log.txt", "-o", "m.ontarget"], "episodes come as .parquet or .csv"),
    ],
)
def test_a_mistake_exits_with_1_and_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("a,step,reward\n1,0,2.0\n")
    Path("log.txt").write_text("")
    result = call(arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("ontarget: ")
    assert result.stderr.count("\n") == 1
    assert not Path("m.ontarget").exists()
