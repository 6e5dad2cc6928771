"""Every example runs, and says what it is there to say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.walks import walks

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_listed_and_run_here() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    listed = (EXAMPLES / "README.md").read_text()
    # cqr_is_not_invertible is run beside the rivals it is about.
    here = (
        Path(__file__).read_text()
        + Path(__file__).with_name("conformal").joinpath("test_rivals.py").read_text()
    )
    for name in names:
        assert f"({name}.py)" in listed, f"{name} is missing in examples/README.md"
        assert f'"{name}"' in here or f'"{name}.py"' in here, f"no test runs {name}"


def test_the_quickstart_ends_in_an_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("quickstart").main(episodes=600)
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("ended outside the target")
    assert said[-2].startswith("t = 11")
    assert said[-2].endswith("ALARM")


def test_a_log_is_read_and_watched_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("log_to_alarm").main(nights=500)
    said = capsys.readouterr().out
    assert "features   outside, wind (2 categories)" in said
    assert "ended early" in said
    # What was missing at times in the log may be missing, and so may a word; a wrong value may not.
    assert said.count("UNKNOWN") == 1
    assert "needs a number, got 'frozen'" in said


@pytest.mark.slow
@pytest.mark.parametrize("library", ["quantile-forest", "ngboost", "skpro"])
def test_estimators_of_other_libraries_enter_a_monitor(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = library.replace("-", "_")
    pytest.importorskip(module, reason=f"shows {library}, which is not installed")
    loaded("other_libraries").main(library, episodes=150)
    p = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(p) == 5
    assert p[0] > 0.25 > p[-1]  # each step loses 1


@pytest.mark.slow
def test_a_fleet_tells_lost_battles_from_won_ones(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("fleet").main(episodes=500, agents=100)
    won, lost = capsys.readouterr().out.splitlines()[-2:]
    n_won, false_alarms = (int(word) for word in re.findall(r"\d+", won))
    n_lost, seen = (int(word) for word in re.findall(r"\d+", lost))
    assert n_won + n_lost == 100
    assert false_alarms / n_won < 0.2 < 0.8 < seen / n_lost


def test_an_arm_is_judged_by_its_last_distance(capsys: pytest.CaptureFixture[str]) -> None:
    _, later, close = loaded("robot_arm").main(past=300, new=80)
    assert "of 80 runs" in capsys.readouterr().out
    last = later.rewards_at(later.horizon - 1)
    assert close.contains(later.outcomes).tolist() == (last <= 2.0).tolist()


def test_two_goals_fall_with_the_one_in_danger(capsys: pytest.CaptureFixture[str]) -> None:
    said = loaded("two_goals").main(past=300)
    # Each is calibrated for itself, so p of both may lie a little above p of one.
    assert all(both <= min(each) + 0.1 for both, *each in said)
    both, distance, energy = said[6]  # after a leg that took much energy
    assert both < 0.5 < distance
    assert energy < 0.5
    assert "outside the goal at" in capsys.readouterr().out.splitlines()[-1]


def test_a_log_is_judged_from_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walks(240).write(tmp_path / "runs.parquet")
    _, later, target = loaded("log_from_a_path").main(str(tmp_path / "runs.parquet"), "0:")
    said = capsys.readouterr().out
    assert len(later) == 80
    assert f"met by {100 * target.contains(later.outcomes).mean():.1f} % of 80 runs" in said


@pytest.mark.slow
def test_a_network_takes_the_place_of_the_forest(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'ontarget[network]'")
    loaded("network").main(past=400, new=100)
    scores = [float(found) for found in re.findall(r"Brier (\S+)", capsys.readouterr().out)]
    assert len(scores) == 2
    assert max(scores) < 0.1


def test_drift_is_noticed_after_the_change_alone(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("drift").main(runs=1000)
    said = capsys.readouterr().out
    assert re.search(r"as before: 300 runs, evidence \S+, no alarm", said)
    assert re.search(r"slower: drift after \d+ runs", said)


def test_rivals_cover_and_only_pcqr_gives_a_probability(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loaded("rivals").main(rows=1000)
    said = capsys.readouterr().out.splitlines()
    covered = {line.split()[0]: float(line.split()[1].rstrip("%")) for line in said[1:5]}
    assert set(covered) == {"PCQR", "CQR", "SplitConformal", "QuantileRegression"}
    # Beta(k, n + 1 - k) and 1,000 test rows: four standard deviations.
    assert all(abs(share - 90.0) < 5.4 for name, share in covered.items() if name[0] != "Q")
    calm, rough = (float(re.findall(r": (\S+),", line)[0]) for line in said[5:])
    assert rough < 0.6 < 0.85 < calm


@pytest.mark.slow
def test_cartpole_goes_from_nothing_to_an_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("cartpole").main(episodes=300)
    said = capsys.readouterr().out
    assert said.count("likely to last 150 steps") == said.count("DONE")
    assert "ALARM" in said


@pytest.mark.slow
def test_your_own_policy_is_recorded_and_watched(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("your_own_policy").main(episodes=300)
    said = capsys.readouterr().out
    assert "behavior   max" in said
    last = said.splitlines()[-1].split()
    assert last[:2] == ["step", "60"]
    assert set(last[2:]) <= {"0%", "100%"}


@pytest.mark.slow
def test_lunar_lander_is_calibrated_and_crashes_are_seen_coming(tmp_path: Path) -> None:
    pytest.importorskip("Box2D", reason="Box2D is not installed; pip install 'gymnasium[box2d]'")
    found = loaded("lunar_lander").main(tmp_path)
    assert found["ece"] <= 0.03
    # The promised 5 %, and four standard errors of the promise and of its measurement.
    assert found["false_alarms"] <= 0.05 + 4.0 * (0.05 * 0.95 * (1 / 420 + 1 / 1040)) ** 0.5
    assert found["crashes_alarmed"] >= 0.5
    assert found["median_lead"] >= 15
    assert (tmp_path / "reliability.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_lander_is_held_to_three_behaviors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("Box2D", reason="Box2D is not installed; pip install 'gymnasium[box2d]'")
    monkeypatch.syspath_prepend(EXAMPLES)  # it flies with the autopilot of lunar_lander
    found = loaded("lander_goal").main(tmp_path)
    assert found["ece"] <= 0.03
    # The promised 5 %, and four standard errors of the promise and of its measurement.
    assert found["false_alarms"] <= 0.05 + 4.0 * (0.05 * 0.95 * (1 / 340 + 1 / 860)) ** 0.5
    assert found["detections"] >= 0.5
    assert found["median_lead"] > 0.0
    assert (tmp_path / "lander_goal.png").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore::DeprecationWarning:antlr4", "ignore:typing.io")
def test_a_rule_in_temporal_logic_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    example = loaded("temporal_logic")
    example.main(episodes=400)
    said = capsys.readouterr().out.splitlines()
    assert float(said[1].split()[-1]) < 0.1
    assert "ALARM" in said[-2]
    assert said[-1].startswith("ended outside the goal at return = ")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:antlr4", "ignore:typing.io")
def test_rtamt_computes_the_same_robustness() -> None:
    pytest.importorskip("rtamt", reason="shows RTAMT, which is not installed", exc_type=ImportError)
    example = loaded("temporal_logic")
    gaps = np.random.default_rng(0).uniform(0.0, 2.0, (50, 10)).round(2).tolist()
    robustness = example.by_rtamt()
    for one in gaps:
        assert robustness(one) == pytest.approx(example.by_hand(one))


def test_a_switch_to_a_safe_policy_is_judged_by_its_control_arm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loaded("acting_on_alarms").main(past=600, live=600)
    said = capsys.readouterr().out
    switched, alone = re.findall(r"(\d+)% of \d+", said)
    assert int(switched) > int(alone)
    assert re.search(r"all that were not stopped: p is \d+ points too low", said)


def test_cut_off_engines_are_made_up_for_or_mislead(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("cut_off_engines").main(units=500, fresh=300, trees=10)
    said = capsys.readouterr().out
    true = float(re.findall(r"left alone, (\S+)% of others", said)[0])
    p = {name: float(said.split(f"\n{name}")[1].split()[1].rstrip("%"))
         for name in ("drop", "weights", "horizon")}  # fmt: skip
    assert true - p["drop"] > 6.0
    for way in ("weights", "horizon"):
        assert abs(p[way] - true) < true - p["drop"]


def test_a_new_policy_is_judged_by_the_runs_it_would_have_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loaded("new_policy").main(logged=2500, fresh=400, trees=10)
    said = capsys.readouterr().out
    true = float(re.findall(r"of which (\S+)% reach", said)[0])
    logged, drawn = (float(one) for one in re.findall(r"p says (\S+)%", said))
    assert abs(drawn - true) < 7.0 < abs(logged - true)
