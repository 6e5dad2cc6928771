from __future__ import annotations

import numpy as np
import pytest

from ontarget.domains import (
    Tamarisk,
    TamariskParameters,
    rollout_outcomes,
    simulate_with_snapshots,
    simulation,
    true_probability,
)
from ontarget.domains.domain import take
from ontarget.domains.tamarisk import Rivers
from ontarget.errors import InputError
from ontarget.target import Target
from refusals import refuses
from yardstick.exact import ExactReturns, rivers

from .bounds import agrees

SMALL = Tamarisk(TamariskParameters(edges=3, horizon=4, native_seeds=2, tamarisk_seeds=3))
PAPER = Tamarisk("paper")


@pytest.mark.parametrize("t", [0, 2, 3])
@pytest.mark.parametrize(
    "target", [Target.at_least(-15.0), Target.at_most(-13.15), Target(-24.0, -12.0)], ids=str
)
def test_rollouts_agree_with_enumeration_from_every_state(t: int, target: Target) -> None:
    rollouts, every = 2_000, rivers(3)
    exact = ExactReturns(SMALL, steps=[t], lowest=-40.0).probability(every, -1.35, t, target)
    truth = true_probability(SMALL, every, -1.35, t, target, rollouts=rollouts, seed=9)
    for count, p in zip(np.rint(truth.p * rollouts), exact, strict=True):
        assert agrees(int(count), rollouts, float(np.round(p, 12)))


def test_standard_error_is_that_of_the_estimate() -> None:
    every, target = rivers(3), Target.at_least(-15.0)
    exact = ExactReturns(SMALL, steps=[0], lowest=-15.0).probability(every, 0.0, 0, target)
    estimates, errors = [], []
    for seed in range(60):
        truth = true_probability(SMALL, every, 0.0, 0, target, rollouts=50, seed=seed)
        estimates.append(truth.p)
        errors.append(truth.standard_error)
    # M12 subtracts the mean squared error; over 60 seeds and 27 states it must match the spread.
    spread = np.mean((np.array(estimates) - exact) ** 2)
    assert np.mean(np.square(errors)) == pytest.approx(spread, rel=0.15)
    assert np.mean(estimates) == pytest.approx(exact.mean(), abs=0.01)


def test_ends_that_floating_sums_miss_are_met_on_the_grid() -> None:
    # A sum of decimals that ends at -67.1 in decimals often ends just below it in floats (M1).
    healthy = Rivers(np.zeros((1, 7), dtype=np.int8))
    behavior = sum([*[-11.8] * 4, *[-1.35] * 6, -11.8])
    assert behavior < -67.1
    truth = true_probability(PAPER, healthy, behavior, 50, Target.at_least(-67.1), rollouts=2)
    assert truth.p.tolist() == [1.0]
    raw = true_probability(
        PAPER, healthy, behavior, 50, Target.at_least(-67.1), rollouts=2, grid=1e-22
    )
    assert raw.p.tolist() == [0.0]


def test_outcomes_do_not_depend_on_other_states_blocks_or_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = simulate_with_snapshots(PAPER, 40, snapshots=[2])
    ids = np.array([f"run {i}" for i in range(40)])
    whole = rollout_outcomes(PAPER, run.snapshots[2], 0.0, 2, rollouts=30, ids=ids)
    rows = np.array([31, 4, 17])
    monkeypatch.setenv("ONTARGET_THREADS", "1")
    monkeypatch.setattr(simulation, "_AT_ONCE", 1)
    some = take(run.snapshots[2], rows)
    part = rollout_outcomes(PAPER, some, 0.0, 2, rollouts=30, ids=ids[rows])
    assert np.array_equal(part, whole[rows])


def test_more_rollouts_begin_with_the_fewer() -> None:
    state = rivers(3)
    few = rollout_outcomes(SMALL, state, 0.0, 0, rollouts=5)
    assert np.array_equal(few, rollout_outcomes(SMALL, state, 0.0, 0, rollouts=9)[:, :5])
    assert not np.array_equal(few, rollout_outcomes(SMALL, state, 0.0, 0, rollouts=5, seed=1))


def test_the_domain_may_be_given_by_name() -> None:
    states = simulate_with_snapshots("tamarisk", 4, snapshots=[2]).snapshots[2]
    target = Target.at_least(-40)
    by_name = true_probability("tamarisk", states, 0.0, 2, target, rollouts=30)
    assert np.array_equal(by_name.p, true_probability(PAPER, states, 0.0, 2, target, rollouts=30).p)


def test_rollouts_leave_the_snapshot_as_it_was() -> None:
    run = simulate_with_snapshots(PAPER, 5, snapshots=[0])
    before = run.snapshots[0].edges.copy()
    rollout_outcomes(PAPER, run.snapshots[0], 0.0, 0, rollouts=3)
    assert np.array_equal(before, run.snapshots[0].edges)


@pytest.mark.parametrize(
    ("argument", "wrong", "shown"),
    [
        ("t", 5, "got 5"),
        ("rollouts", 0, "got 0"),
        ("behavior", [0.0, 1.0], "(2,)"),
        ("behavior", np.nan, "nan"),
        ("ids", [1, 2], "(27,)"),
    ],
)
def test_bad_questions_are_refused(argument: str, wrong: object, shown: str) -> None:
    question: dict[str, object] = {"behavior": 0.0, "t": 0, "rollouts": 2, argument: wrong}
    with refuses(InputError, argument, shown):
        rollout_outcomes(SMALL, rivers(3), **question)  # type: ignore[arg-type]
