"""Every planted bug is caught by a check of the suite: a check that cannot fail proves nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from known import Atoms, Uniform
from ontarget.conformal import levels, pcqr
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.ranks import Interval, Ranks
from ontarget.conformal.venn_abers import Envelopes
from validity.checks import (
    check_beta_law,
    check_cdf_identity,
    check_fresh_coverage,
    check_interval_identity,
    check_promise_identity,
    check_rank_is_uniform,
    check_unreachable_level_is_refused,
    check_venn_identity,
)
from validity.test_conformal import DIE, DISTINCT, ROLLS, ROUNDED, fresh_bit

caught = pytest.raises(AssertionError)
true_rank = pcqr.score_rank
true_counts = Ranks.end_counts


def one_too_low(level, n, kind, *, unbounded, confidence=None):
    return max(true_rank(level, n, kind, unbounded=unbounded) - 1, 0)


def n_for_n_plus_1(level, n, kind, *, unbounded, confidence=None):
    exact = levels.exact_level(level) * n
    return math.floor(exact) if kind == "at_most" else math.ceil(exact)


def float_level(level, n, kind, *, unbounded, confidence=None):
    share = (1.0 - (1.0 - float(Fraction(level)))) * (n + 1)
    return math.floor(share) if kind == "at_most" else min(math.ceil(share), n)


@pytest.mark.parametrize(
    ("bug", "n"), [(one_too_low, 200), (n_for_n_plus_1, 100), (n_for_n_plus_1, 200)]
)
def test_wrong_order_statistic_is_caught(
    monkeypatch: pytest.MonkeyPatch, bug: object, n: int
) -> None:
    monkeypatch.setattr(pcqr, "score_rank", bug)
    with caught:
        check_interval_identity(Uniform(), DISTINCT, "0.8", ties=False)
    with caught:
        check_beta_law(Uniform(), n, "0.9", seed=n)


def test_n_for_n_plus_1_cannot_be_seen_at_99(monkeypatch: pytest.MonkeyPatch) -> None:
    # ⌈0.9 · 99⌉ = ⌈0.9 · 100⌉ = 90: why the law is tested at 100 and 200.
    monkeypatch.setattr(pcqr, "score_rank", n_for_n_plus_1)
    check_beta_law(Uniform(), 99, "0.9", seed=99)


def test_level_in_floats_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcqr, "score_rank", float_level)
    with caught:
        for outcomes in (DISTINCT, DISTINCT[:20]):
            for level in ("0.05", "0.3", "0.8", "0.95"):
                check_interval_identity(Uniform(), outcomes, level, ties=False)


def test_interpolated_quantile_of_the_scores_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def interpolated(self: Ranks, k: int) -> float:
        return 0.5 - float(np.quantile(np.abs(0.5 - self.values), 0.9))

    monkeypatch.setattr(Ranks, "depth", interpolated)
    with caught:
        check_beta_law(Uniform(), 200, "0.9", seed=200)


def test_promise_one_rank_too_high_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_tail = pcqr.tail_rank
    monkeypatch.setattr(pcqr, "tail_rank", lambda level, n, _: min(true_tail(level, n) + 1, n))
    with caught:
        check_promise_identity(Uniform(), DISTINCT, "0.8", ties=False)
    with caught:
        check_beta_law(Uniform(), 100, "0.9", seed=100)


def test_calibrating_on_training_rows_is_caught() -> None:
    with caught:
        check_fresh_coverage(lambda rng: fresh_bit(rng, leak=True), 0.8)


def test_ties_counted_by_below_only_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def below_only(self: Ranks, query: object) -> tuple[np.ndarray, np.ndarray]:
        lo, _ = true_counts(self, query)
        return lo, lo + 1

    monkeypatch.setattr(Ranks, "end_counts", below_only)
    check_cdf_identity(Uniform(), DISTINCT, ties=False)  # invisible without ties
    with caught:
        check_cdf_identity(Uniform(), ROUNDED, ties=True)


def test_ties_counted_by_upto_only_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def upto_only(self: Ranks, query: object) -> tuple[np.ndarray, np.ndarray]:
        _, hi = true_counts(self, query)
        return hi - 1, hi

    monkeypatch.setattr(Ranks, "end_counts", upto_only)
    with caught:
        check_cdf_identity(Uniform(), ROUNDED, ties=True)


def test_missing_slack_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain_share(self: Ranks, query: object) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = true_counts(self, query)
        return lo, hi - 1

    monkeypatch.setattr(Ranks, "end_counts", plain_share)
    with caught:
        check_cdf_identity(Uniform(), DISTINCT, ties=False)


def test_ranks_among_themselves_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # The new outcome counted among the ranks it is compared with.
    def itself_too(self: Ranks, query: object) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = true_counts(self, query)
        return np.minimum(lo + 1, self.n), hi + 1

    monkeypatch.setattr(Ranks, "end_counts", itself_too)
    with caught:
        check_rank_is_uniform(5, seed=5)


def test_atoms_split_by_an_at_most_interval_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_interval = PCQR.interval

    def closed(self, X, level, kind="at_least", *, unbounded=False):
        lower, upper = true_interval(self, X, level, "at_least", unbounded=True)
        if kind == "at_least":
            return Interval(lower, upper)
        return Interval(np.nextafter(lower, -np.inf), np.nextafter(upper, np.inf))

    monkeypatch.setattr(PCQR, "interval", closed)
    with caught:
        check_interval_identity(DIE, ROLLS, "0.8", ties=True)


def test_interval_that_stops_one_atom_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_quantile = Atoms.quantile

    def one_short(self, X, q, *, side="left"):
        at = true_quantile(self, X, q, side=side)
        return at - 1.0 if side == "right" else at

    monkeypatch.setattr(Atoms, "quantile", one_short)
    with caught:
        check_interval_identity(DIE, ROLLS, "0.8", ties=True)


def test_support_ends_instead_of_infinity_are_caught() -> None:
    # M2: Q(0) must be −inf. A model that answers with the ends of its support loses the outcomes
    # that it thought impossible.
    class Narrow(Uniform):
        def cdf_limits(self, X, y):
            left, right = super().cdf_limits(X, (np.asarray(y) - 0.25) * 2.0)
            return left, right

        def quantile(self, X, q, *, side="left"):
            at = np.clip(np.asarray(q, dtype=float), 0.0, 1.0) / 2.0 + 0.25
            return np.full(len(X), at)

    class Honest(Narrow):
        def quantile(self, X, q, *, side="left"):
            at = super(Narrow, self).quantile(X, q, side=side)
            return at / 2.0 + 0.25

    # Half of the outcomes lie outside the model's support and share the ranks 0 and 1.
    check_interval_identity(Honest(), DISTINCT, "0.8", ties=True)
    with caught:
        check_interval_identity(Narrow(), DISTINCT, "0.8", ties=True)


def test_unreachable_level_that_is_answered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcqr, "score_rank", float_level)
    with caught:
        check_unreachable_level_is_refused()


def test_isotonic_fit_without_the_new_label_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.isotonic import IsotonicRegression

    true_of = Envelopes.of.__func__

    def plain(cls, scores, labels):
        envelopes = true_of(cls, scores, labels)
        fit = IsotonicRegression(out_of_bounds="clip").fit(scores, labels)
        object.__setattr__(envelopes, "pair", lambda at: (fit.predict(at), fit.predict(at)))
        return envelopes

    monkeypatch.setattr(Envelopes, "of", classmethod(plain))
    rng = np.random.default_rng(3)
    scores = rng.random(60).round(1)
    with caught:
        check_venn_identity(scores, rng.random(60) < scores)


def test_labels_swapped_in_venn_abers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true_pair = Envelopes.pair
    monkeypatch.setattr(Envelopes, "pair", lambda self, at: true_pair(self, at)[::-1])
    rng = np.random.default_rng(3)
    scores = rng.random(60).round(1)
    with caught:
        check_venn_identity(scores, rng.random(60) < scores)
