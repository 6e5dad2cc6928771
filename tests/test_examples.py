"""Every example runs, and says what it is there to say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
