"""M8, M9 and M10 by simulation: one bit per replicate, on a process that the model gets wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget.drift import DriftBet
from ontarget.episodes import PaperSplit
from ontarget.models import Marginal

# With so few episodes a promised threshold may lie below every p.
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

# All bounds together fail by chance with a probability below 1e-6.
UNLIKELY = 1e-8
REPLICATES = 1200
STEPS = 4
TARGET = Target.at_least(0)


def process(n: int, rng: np.random.Generator, *, drift: float) -> Episodes:
    """Integer walks of random length; the state tells the sign of the first reward."""
    lengths = rng.integers(2, STEPS + 1, size=n)
    rewards = [rng.integers(-2, 3, size=t) + rng.integers(0, 2) * drift for t in lengths]
    states = [np.full((t, 1), np.sign(r[0])) for t, r in zip(lengths, rewards, strict=True)]
    ids = rng.integers(0, 2**60, size=n)
    return Episodes.from_arrays(states, rewards, ids=ids, horizon=STEPS)


def monitors() -> Iterator[tuple[GoalMonitor, Episodes]]:
    """Fresh calibrate and assure sets and one new episode for each replicate.

    The model learns from another process and pools its steps, so it is wrong at every step.
    """
    for replicate in range(REPLICATES):
        rng = np.random.default_rng([7, replicate])
        split = PaperSplit(
            process(30, rng, drift=3.0),
            process(40, rng, drift=-1.0),
            process(39, rng, drift=-1.0),
            None,
        )
        monitor = GoalMonitor(Marginal(), min_calibration=1).fit(split=split, progress=False)
        yield monitor, process(1, rng, drift=-1.0)


def along(monitor: GoalMonitor, episode: Episodes, target: Target, field: str) -> list[float]:
    """A field of the outlook at every step of the episode."""
    steps = [episode.at(t) for t in range(int(episode.lengths[0]))]
    outlooks = [monitor.outlook(s.t, s.states, s.behavior, target) for s in steps]
    return [getattr(outlook, field)[0] for outlook in outlooks]


def alarmed(monitor: GoalMonitor, episode: Episodes) -> bool:
    watch = monitor.watch(TARGET, false_alarm_rate="0.2")
    states = []
    for t in range(int(episode.lengths[0])):
        reward = episode.rewards_at(t - 1)[0] if t else 0.0
        states.append(watch.step(episode.at(t).states[0], reward).status)
    return Status.ALARM in states


@pytest.fixture(scope="module")
def replicates() -> dict[str, list[bool]]:
    bits: dict[str, list[bool]] = {"false alarm": [], "fixed": [], "chosen": [], "assured": []}
    for monitor, episode in monitors():
        outcome = float(episode.outcomes[0])
        met = bool(TARGET.contains(outcome))
        if met:
            bits["false alarm"].append(alarmed(monitor, episode))
        ruled_out = min(along(monitor, episode, TARGET, "plausibility")) <= 0.1
        bits["fixed"].append(met and ruled_out)
        # The worst target that anyone could choose after looking: the outcome itself.
        itself = Target(outcome, outcome)
        bits["chosen"].append(min(along(monitor, episode, itself, "plausibility")) <= 0.1)
        assured = max(along(monitor, episode, TARGET, "assurance")) >= 0.9
        bits["assured"].append(assured and not met)
    return bits


def at_most(bits: list[bool], rate: float) -> bool:
    """Whether so many events are likely enough at this rate."""
    return bool(stats.binom.sf(sum(bits) - 1, len(bits), rate) > UNLIKELY)


def test_false_alarms_stay_within_the_promised_rate(replicates) -> None:
    bits = replicates["false alarm"]
    assert len(bits) > 300
    assert at_most(bits, 0.2)
    # The promise is not kept by never alarming.
    assert sum(bits) > 0.05 * len(bits)


def test_a_fixed_target_is_ruled_out_wrongly_at_most_at_the_rate(replicates) -> None:
    assert at_most(replicates["fixed"], 0.1)


def test_a_target_chosen_after_looking_is_ruled_out_wrongly_at_most_at_the_rate(
    replicates,
) -> None:
    assert at_most(replicates["chosen"], 0.1)
    assert sum(replicates["chosen"]) > 0.01 * REPLICATES


def test_a_target_is_assured_wrongly_at_most_at_the_rate(replicates) -> None:
    assert at_most(replicates["assured"], 0.1)


def test_a_threshold_one_rank_too_high_would_be_caught() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((40_000, 20))
    for k, caught in ((4, False), (5, True)):
        thresholds = np.sort(scores[:, :19], axis=1)[:, k - 1]
        bits = (scores[:, 19] < thresholds).tolist()
        assert at_most(bits, 0.2) is not caught


class FixedBag(DriftBet):
    """The planted bug of M10: finished episodes never join the bag."""

    def observe(self, rank: float):
        bag = self._bag.copy()
        reading = super().observe(rank)
        self._bag = bag
        return reading


def drift_alarms(kind: type[DriftBet], runs: int) -> int:
    alarms = 0
    for run in range(runs):
        rng = np.random.default_rng([11, run])
        bet = kind(np.round(rng.random(60), 2), seed=run, level=0.95)
        for _ in range(200):
            reading = bet.observe(round(float(rng.random()), 2))
        alarms += reading.alarm
    return alarms


def test_drift_guard_raises_false_alarms_at_most_at_its_rate() -> None:
    assert stats.binom.sf(drift_alarms(DriftBet, 200) - 1, 200, 0.05) > UNLIKELY


def test_a_bag_that_does_not_grow_would_be_caught() -> None:
    assert stats.binom.sf(drift_alarms(FixedBag, 200) - 1, 200, 0.05) < UNLIKELY


@pytest.mark.parametrize("change", ["level", "spread"])
def test_drift_guard_fires_after_a_real_change(change: str) -> None:
    fired = 0
    for run in range(20):
        rng = np.random.default_rng([13, run])
        bet = DriftBet(rng.random(300), seed=run, level=0.99)
        for _ in range(300):
            u = rng.random()
            reading = bet.observe(u**2 if change == "level" else 0.5 + 0.4 * (u - 0.5))
        fired += reading.alarm
    assert fired >= 19


def test_places_of_exchangeable_episodes_are_uniform_numbers() -> None:
    rng = np.random.default_rng(5)
    values = []
    for run in range(300):
        bet = DriftBet(rng.integers(0, 5, 20) / 5, seed=run)
        values += [bet.observe(float(rng.integers(0, 5)) / 5).p for _ in range(10)]
    assert stats.kstest(values, "uniform").pvalue > 1e-6
