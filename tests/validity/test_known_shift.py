"""Weights for a known shift (M25): identities that can fail.

Given the pool as a set, the new run is run i with a probability proportional to its weight. So if
each takes a turn as the new one and the others assure, the weights of the turns that break a
promise add up to at most its share of all weights: always, not on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, RuledOut, Target
from ontarget.episodes import Split
from ontarget.errors import FewEpisodesError
from ontarget.fitted import guarantee
from validity.test_planted_conformal_bugs import caught
from validity.turns import TARGET, Biased, outcome, runs

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

LEARN, POOL = 40, 40
RATE = 0.25


def turns(seed: int, *, atoms: bool) -> list[tuple[GoalMonitor, Episodes, float]]:
    """Each run of the pool as the new one, its weight, and what the others assure.

    Runs that drift downwards, which do worse, are much more likely now than they were.
    """
    both = runs(LEARN + POOL, np.random.default_rng([25, seed]), atoms=atoms)
    drift = both.at(0).states[:, 0]
    both = both.weighted(np.exp(-1.5 * drift))
    learn, pool = both.take(range(LEARN)), both.take(range(LEARN, LEARN + POOL))
    found, everyone = [], np.arange(POOL)
    for i in range(POOL):
        monitor = GoalMonitor(Biased(atoms=atoms), min_calibration=1)
        split = Split(learn, pool.take(everyone != i), None)
        monitor.fit(split=split, progress=False)
        found.append((monitor, pool.take([i]), float(pool.weights[i])))
    return found


def raised(monitor: GoalMonitor, run: Episodes, **options: object) -> bool:
    """Whether a live watch ever raises an alarm; one that is refused raises none."""
    try:
        watch = monitor.watch(TARGET, **options)
    except FewEpisodesError:
        return False
    rewards = [0.0, *(run.rewards_at(t)[0] for t in range(int(run.lengths[0]) - 1))]
    return any(watch.step(run.at(t).states[0], one).alarm for t, one in enumerate(rewards))


def check(found: list, broken: Callable[..., bool], share: float = RATE, *, met: bool) -> float:
    """Raise unless the weight of broken promises is at most the share of all; that weight."""
    counted = [one for one in found if not met or TARGET.contains(outcome(one[1]))]
    whole = sum(weight for *_, weight in counted)
    part = sum(weight for *rest, weight in counted if broken(*rest, weight))
    assert part <= share * whole * (1 + 1e-12), f"{part / whole:.3f} of {share}"
    return part / whole


def alarm(monitor: GoalMonitor, run: Episodes, weight: float) -> bool:
    return raised(monitor, run, false_alarm_rate=str(RATE), weight=weight)


def ruled_out(monitor: GoalMonitor, run: Episodes, weight: float) -> bool:
    return raised(monitor, run, alarm=RuledOut(str(RATE)), weight=weight)


def high_is_low(beta: float, *, own: float = 1.0) -> Callable[..., bool]:
    """Whether hi at the outcome is at most β; ``own`` is the part of its weight that counts."""

    def broken(monitor: GoalMonitor, run: Episodes, weight: float) -> bool:
        step, upto = run.at(0), Target.at_most(outcome(run))
        now = monitor.outlook(0, step.states, step.behavior, upto, weights=own * weight)
        return bool(now.high[0] <= beta)

    return broken


def low_is_high(beta: float) -> Callable[..., bool]:
    """Whether lo just below the outcome is at least β."""

    def broken(monitor: GoalMonitor, run: Episodes, weight: float) -> bool:
        step, under = run.at(0), Target(-math.inf, outcome(run), closed="neither")
        now = monitor.outlook(0, step.states, step.behavior, under, weights=weight)
        return bool(now.low[0] >= beta)

    return broken


@pytest.mark.parametrize("atoms", [False, True])
def test_weighted_promises_hold_for_the_shifted_runs(atoms: bool) -> None:
    power = 0.0
    for seed in range(2):
        found = turns(seed, atoms=atoms)
        power += check(found, alarm, met=True)
        check(found, ruled_out, met=True)
        for beta in (0.1, 0.25, 0.5, 0.8):
            check(found, high_is_low(beta), beta, met=False)
            check(found, low_is_high(beta), 1 - beta, met=False)
    assert power > 0.05  # not kept by silence


def test_weights_normalised_without_the_new_run_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fractions import Fraction

    found = [one for seed in range(3) for one in turns(seed, atoms=False)]
    thirds = [found[i : i + POOL] for i in range(0, len(found), POOL)]
    with caught:
        for part in thirds:
            for beta in np.arange(0.05, 0.95, 0.05).tolist():
                check(part, high_is_low(beta, own=1e-9), beta, met=False)

    def without_own(rate, weights, weight):
        return Fraction(str(rate)) * Fraction(float(weights.sum()))

    monkeypatch.setattr(guarantee, "allowance", without_own)
    with caught:
        for part in thirds:
            check(part, alarm, met=True)


def test_promises_without_the_weights_are_caught() -> None:
    def unweighted(monitor: GoalMonitor, run: Episodes, weight: float) -> bool:
        scores = monitor._kept.assured(TARGET)
        own = guarantee.promised_threshold(scores.scores(1), scores.met, str(RATE)).value
        answers = [
            monitor.outlook(t, run.at(t).states, run.at(t).behavior, TARGET, weights=1.0).p[0]
            for t in range(int(run.lengths[0]))
        ]
        return min(answers) < own - 1e-9

    with caught:
        for seed in range(3):
            check(turns(seed, atoms=False), unweighted, met=True)
