"""What a fit could get wrong between learn and assure, planted: each is caught (M13, M16)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.conformal import pcqr
from ontarget.episodes import Split
from ontarget.fitted import curves as curves
from ontarget.fitted import guarantee, target_map
from ontarget.fitted.curves import RankTable
from ontarget.fitted.kernels import KNOTS
from ontarget.fitting import fit, ground, tasks
from ontarget.live import contracts, rules
from ontarget.live.answering import answer_episodes
from ontarget.live.answers import Answers
from ontarget.models import QuantileForest
from validity.checks import dkw
from validity.test_planted_conformal_bugs import caught, n_for_n_plus_1
from validity.turns import (
    World,
    check_alarms,
    check_cdf,
    check_intervals,
    check_promises,
    check_ruled_out,
)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

SEEDS = range(3)


def plain(seed: int, **sizes: int) -> World:
    """A world without ties, where every count is exact."""
    return World(seed, atoms=False, forest=False, **sizes)


def of_learning(asked: dict[str, Any]) -> bool:
    """Whether a table of ranks is asked for the learning episodes: theirs are never thinned."""
    return asked.get("thin") is False


def learn_from_assure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the curves see the ranks of the assure episodes."""
    true_table, true_draft = fit.rank_table, fit._without_promises
    seen: dict[str, Any] = {}

    def draft(*about: Any) -> Any:
        seen["fitted"] = true_draft(*about)
        return seen["fitted"]

    def table(limits: Any, part: Any, **rest: Any) -> RankTable:
        own = true_table(limits, part, **rest)
        if not of_learning(rest):
            return own
        assure = replace(part, episodes=seen["assure"], groups=np.zeros(len(seen["assure"]), int))
        leaked = true_table(fit.predicted_limits(seen["fitted"], assure), assure, **rest)
        both = [[one.at(t, 0).values for one in (own, leaked)] for t in range(rest["horizon"])]
        return RankTable.of([np.sort(np.concatenate(pair)) for pair in both], 1)

    monkeypatch.setattr(ground, "_check_disjoint", seen.update)
    monkeypatch.setattr(fit, "_without_promises", draft)
    monkeypatch.setattr(fit, "rank_table", table)


def test_curves_that_saw_the_assure_episodes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Shrinkage hides the leak at these sizes, so the curves follow the ranks entirely.
    monkeypatch.setattr(curves, "_PRIOR", 0.0)
    worlds = [plain(seed, learn=8) for seed in SEEDS]
    check_ruled_out(worlds[0], worlds[0].turns())
    learn_from_assure_too(monkeypatch)
    with caught:
        for world in worlds:
            check_ruled_out(world, world.turns())


def test_ranks_of_learning_episodes_instead_of_assure_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_table, learned = fit.rank_table, []

    def table(limits: Any, part: Any, **rest: Any) -> RankTable:
        if of_learning(rest):
            learned[:] = [true_table(limits, part, **rest)]
        return learned[0]

    monkeypatch.setattr(fit, "rank_table", table)
    monkeypatch.setattr(fit, "ranks_in_tasks", lambda *_, **__: learned[0])
    world = plain(0)
    turns = world.turns()
    for check in (check_intervals, check_promises, check_cdf):
        with caught:
            check(world, turns)


def test_n_for_n_plus_1_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    world = plain(0)
    turns = world.turns()
    monkeypatch.setattr(pcqr, "score_rank", n_for_n_plus_1)
    with caught:
        check_intervals(world, turns)
    monkeypatch.setattr(pcqr, "tail_rank", lambda level, n, _: math.floor((1 - level) * n))
    with caught:
        check_promises(world, turns)
    monkeypatch.setattr(guarantee, "ceil_rank", lambda level, n, _: math.ceil(level * n))
    with caught:
        check_ruled_out(world, turns)


def test_an_alarm_threshold_one_rank_too_high_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_threshold = rules.promised_threshold

    def higher(scores: Any, met: Any, rate: Any, **options: Any) -> Any:
        found = true_threshold(scores, met, rate, **options)
        return replace(found, value=float(np.sort(scores[met])[found.k]))

    monkeypatch.setattr(rules, "promised_threshold", higher)
    world = plain(0)
    with caught:
        check_alarms(world, world.turns(), exact=True)


def test_alarm_scores_from_another_p_than_the_live_one_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scores_of_raw(self: Answers, for_steps: int) -> Any:
        return guarantee.alarm_scores(self.raw, for_steps, resets=self.broken)

    monkeypatch.setattr(Answers, "scores", scores_of_raw)
    with caught:
        for world in map(plain, SEEDS):
            check_alarms(world, world.turns(), exact=True)


def test_excesses_by_another_map_than_the_live_one_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_excess = fit.whole_run_excess
    monkeypatch.setattr(
        fit,
        "whole_run_excess",
        lambda limits, part, ranks, _: true_excess(limits, part, ranks, None),
    )
    with caught:
        for world in map(plain, SEEDS):
            check_ruled_out(world, world.turns())


def test_a_map_from_the_episodes_that_promise_alarms_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Most of a small leak is lost in the identity's weight, so Venn–Abers has all of it.
    weights = np.arange(13) == 12
    monkeypatch.setattr(target_map, "_weights", lambda losses, steps, place: weights.astype(float))
    worlds = [plain(seed) for seed in SEEDS]
    turns = {world: world.turns() for world in worlds}
    for world in worlds:
        check_alarms(world, turns[world], exact=False)
    true_map = contracts.map_target

    def from_assure(asked: Any) -> Any:
        """The map that the assure episodes' own outcomes teach."""
        said = answer_episodes(asked, asked.observed)
        alive = [np.flatnonzero(~np.isnan(panel)) for panel in said.p]
        steps = [
            target_map.StepAnswers(own, panel[own])
            for own, panel in zip(alive, said.p, strict=True)
        ]
        folds = target_map.folds_of(said.met)
        learned = target_map.fit_maps(steps, said.met, folds, fading=False)
        own_map = true_map(asked)
        return replace(own_map, tables=learned.tables[:, :, None], identity=learned.weights[:, :1])

    monkeypatch.setattr(contracts, "map_target", from_assure)
    with caught:
        for world in worlds:
            for monitor, _ in turns[world]:
                # Forget the true map.
                monitor._contracts = type(monitor.contracts)(monitor.contracts.joint)
            check_alarms(world, turns[world], exact=False)


class Boxed:
    """A forest that keeps its trees to itself, so that folds answer for its own episodes."""

    def __init__(self) -> None:
        self.forest = QuantileForest(n_trees=20, min_leaf=2)

    def fit(self, X: Any, y: Any, *, ids: Any) -> Boxed:
        self.forest.fit(X, y, ids=ids)
        return self

    def cdf_limits(self, X: Any, y: Any) -> Any:
        return self.forest.cdf_limits(X, y)

    def quantile(self, X: Any, q: Any, *, side: Any = "left") -> Any:
        return self.forest.quantile(X, q, side=side)


def far_from_uniform(model: Any, n: int = 500) -> bool:
    """Whether the curve of n learning episodes shows ranks that no true law would give them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 1, 3))
    learn = Episodes.from_arrays(X, 0.5 * X[:, :, 0] + rng.normal(size=(n, 1)))
    split = Split(learn, None, None)
    learned = GoalMonitor(model).fit(split=split, progress=False).fitted.curves
    trust = n / (n + curves._PRIOR)
    return bool(np.abs(learned.values[0, 0] - KNOTS).max() / trust > dkw(n))


@pytest.mark.parametrize("model", [QuantileForest(n_trees=20, min_leaf=2), Boxed()])
def test_answers_by_what_saw_the_episode_itself_are_caught(
    monkeypatch: pytest.MonkeyPatch, model: Any
) -> None:
    assert not far_from_uniform(model)

    def in_bag(task: Any, steps: Any, unfitted: Any, model: Any) -> Any:
        return [model.cdf_limits(rows.X, rows.y) for rows in steps]

    monkeypatch.setattr(tasks, "_own_limits", in_bag)
    assert far_from_uniform(model)
