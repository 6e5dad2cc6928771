"""How fast conformal calibration (the part that backs promises) is, compared with two libraries.

Run: python bench/conformal.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from crepes import ConformalPredictiveSystem as Crepes

from ontarget import PCQR, ConformalPredictiveSystem, Target
from ontarget.conformal.kernels import target_rows
from ontarget.conformal.ranks import Ranks, target_counts
from ontarget.conformal.venn_abers import Envelopes
from ontarget.models import DistributionRegression
from yardstick.figures import keep

with np.errstate():  # importing the package switches NumPy's warnings off
    from venn_abers.venn_abers import calc_p0p1, calc_probs

N_CALIBRATION, N_QUERIES = 100_000, 1_000_000
RNG = np.random.default_rng(0)


def seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """The seconds that a task takes: the shortest of a few runs, after one to warm up."""
    task()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best


def report(what: str, value: str, required: str = "") -> None:
    print(f"{what:<62} {value:>14}   {required}")


class Identity:
    """A model that predicts its first feature, so that only conformal calibration takes time."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0]


def through_a_model() -> None:
    n_train = 2_000
    X = RNG.normal(size=(n_train + N_CALIBRATION, 4))
    y = X @ np.ones(4) + (1.0 + np.abs(X[:, 0])) * RNG.normal(size=len(X))
    model = DistributionRegression().fit(X[:n_train], y[:n_train])
    pcqr = PCQR(model)
    calibration = X[n_train:], y[n_train:]
    report(
        "PCQR(regression) calibrates 100,000",
        f"{seconds(lambda: pcqr.calibrate(*calibration)):.3f} s",
    )
    queries = RNG.normal(size=(N_QUERIES, 4))
    target = Target(-1.0, 2.0)
    ask = seconds(lambda: pcqr.probability(queries, target), repeats=2)
    report("PCQR(regression) answers 1,000,000 probabilities", f"{ask:.3f} s")
    keep("1,000,000 probabilities by PCQR", ask, "s")
    a_minus, a_plus = np.sort(RNG.random((2, N_QUERIES, 1)), axis=0)
    count = seconds(lambda: target_counts(pcqr.ranks, a_minus, a_plus).probability(), repeats=2)
    report("  of which counting among 100,000 ranks", f"{count:.3f} s")


def against_crepes() -> None:
    residuals = RNG.normal(size=N_CALIBRATION)
    few = 500  # crepes looks at every calibration score for every query
    centre, y = RNG.normal(size=N_QUERIES), RNG.normal(size=N_QUERIES)
    theirs = Crepes().fit(residuals)
    ours = ConformalPredictiveSystem(Identity())
    ours.calibrate(np.zeros((N_CALIBRATION, 1)), residuals)
    X = centre[:, None]
    slow = seconds(lambda: theirs.predict_p(centre[:few], y[:few], smoothing=False)) / few
    fast = seconds(lambda: ours.cdf(X, y)) / N_QUERIES
    same = theirs.predict_p(centre[:few], y[:few], smoothing=False)
    assert np.allclose(ours.cdf(X[:few], y[:few]).high, same, atol=1e-12)
    report("crepes predict_p, per query at n = 100,000", f"{slow * 1e6:.1f} µs")
    report("ontarget cdf, per query on the same scores", f"{fast * 1e6:.3f} µs")
    report("  ratio", f"{slow / fast:,.0f} x", "required >= 50 x")
    keep("a calibrated CDF at n = 100,000", slow / fast, "×", asked="≥ 50 ×", beside="crepes")


def one_row() -> None:
    ranks = Ranks.of(RNG.random(N_CALIBRATION))
    a_minus, a_plus = np.array([[0.2]]), np.array([[0.7]])
    first, counts = np.array([0, 1]), np.empty((1, 1, 3), dtype=np.int64)

    def many() -> None:
        for _ in range(1000):
            target_rows(ranks.values, a_minus, a_plus, first, counts)

    report("one row from Python, counts of one target", f"{seconds(many) * 1e3:.2f} µs")


def against_venn_abers() -> None:
    for n in (2_000, 20_000):
        scores = RNG.random(n)
        labels = RNG.random(n) < scores
        at = RNG.random(N_QUERIES)
        pairs, query = np.column_stack((1 - scores, scores)), np.column_stack((1 - at, at))

        def precompute(pairs: np.ndarray = pairs, labels: np.ndarray = labels) -> tuple:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return calc_p0p1(pairs, labels.astype(float))

        theirs, ours = precompute(), Envelopes.of(scores, labels)
        slow = seconds(precompute, repeats=1)
        fast = seconds(lambda s=scores, z=labels: Envelopes.of(s, z))
        report(f"venn-abers precomputes n = {n:,}", f"{slow * 1e3:,.1f} ms")
        report(f"ontarget precomputes n = {n:,}", f"{fast * 1e3:,.2f} ms")
        report("  ratio", f"{slow / fast:,.0f} x", "required >= 20 x")
        keep(f"Venn–Abers, n = {n:,}", slow / fast, "×", asked="≥ 20 ×", beside="venn-abers")
        assert np.allclose(
            np.column_stack(ours.pair(at)), calc_probs(*theirs, query)[1], atol=1e-12
        )
        slow = seconds(lambda t=theirs, q=query: calc_probs(*t, q))
        fast = seconds(lambda o=ours, a=at: o.probability(a))
        report(
            "  1,000,000 queries, venn-abers / ontarget", f"{slow / fast:.2f} x", "required >= 1 x"
        )


if __name__ == "__main__":
    through_a_model()
    against_crepes()
    one_row()
    against_venn_abers()
