"""Every example runs, and says what it is there to say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

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


def test_a_fleet_tells_lost_battles_from_won_ones(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("fleet").main(episodes=500, agents=100)
    won, lost = capsys.readouterr().out.splitlines()[-2:]
    n_won, false_alarms = (int(word) for word in re.findall(r"\d+", won))
    n_lost, seen = (int(word) for word in re.findall(r"\d+", lost))
    assert n_won + n_lost == 100
    assert false_alarms / n_won < 0.2 < 0.8 < seen / n_lost


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


def test_cartpole_goes_from_nothing_to_an_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("cartpole").main(episodes=300)
    said = capsys.readouterr().out
    assert said.count("likely to last 150 steps") == said.count("DONE")
    assert "ALARM" in said


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
    assert "all that were not stopped: p is now" in said
    assert "points too low" in said
