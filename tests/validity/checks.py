"""Checks of validity that can fail (M13). Each raises AssertionError; planted bugs must make it.

A deterministic check spends nothing. A random one fails by chance with probability at most `CHANCE`
whatever the seed; no more than 20 of them run, so the whole suite stays within one in a million.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.stats import beta, binom

from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.venn_abers import VennAbers
from ontarget.errors import CalibrationError
from ontarget.target import Target

CHANCE = 5e-8
REPLICATES = 4400


def left_out(
    model: object, outcomes: np.ndarray, X: np.ndarray | None = None
) -> list[tuple[PCQR, np.ndarray, float]]:
    """Every episode in turn as the new one, with the PCQR that the others calibrate."""
    ids = np.arange(outcomes.size)
    X = np.zeros((outcomes.size, 1)) if X is None else X
    found = []
    for i in ids:
        rest = np.delete(ids, i)
        pcqr = PCQR(model).calibrate(X[rest], outcomes[rest], ids=rest)
        found.append((pcqr, X[[i]], float(outcomes[i])))
    return found


def check_interval_identity(
    model: object, outcomes: np.ndarray, level: str, *, ties: bool, X: np.ndarray | None = None
) -> None:
    """At level k/(n + 1) exactly k of n + 1 outcomes are covered; with ties at least k."""
    whole = outcomes.size
    exact = Fraction(level) * whole
    least = most = 0
    for pcqr, row, y in left_out(model, outcomes, X):
        least += int(pcqr.interval(row, level, unbounded=True).contains(y)[0])
        most += int(pcqr.interval(row, level, "at_most").contains(y, closed=False)[0])
    if ties:
        assert most <= math.floor(exact), f"at most {exact} of {whole} may be covered, {most} are"
        assert least >= math.ceil(exact), (
            f"at least {exact} of {whole} must be covered, {least} are"
        )
    else:
        assert (most, least) == (math.floor(exact), math.ceil(exact)), (most, least, exact)


def check_promise_identity(
    model: object, outcomes: np.ndarray, level: str, *, ties: bool, X: np.ndarray | None = None
) -> None:
    """A one-sided promise fails for exactly ⌊δ(n + 1)⌋ of n + 1 outcomes; with ties for fewer."""
    allowed = math.floor((1 - Fraction(level)) * outcomes.size)
    for side in ("lower", "upper"):
        broken = 0
        for pcqr, row, y in left_out(model, outcomes, X):
            bound = float(pcqr.promise(row, level, side, unbounded=True)[0])
            broken += y < bound if side == "lower" else y > bound
        assert broken <= allowed if ties else broken == allowed, (side, broken, allowed)


def check_cdf_identity(
    model: object, outcomes: np.ndarray, *, ties: bool, X: np.ndarray | None = None
) -> None:
    """Without ties the n + 1 calibrated CDFs are each point of the grid, once; with ties valid."""
    whole = outcomes.size
    hi, lo = [], []
    for pcqr, row, y in left_out(model, outcomes, X):
        hi.append(round(float(pcqr.cdf(row, y).high[0]) * whole))
        lo.append(round(float(pcqr.cdf(row, y, side="left").low[0]) * whole))
    for j in range(whole + 1):
        assert sum(h <= j for h in hi) <= j, f"P(hi <= {j}/{whole}) is too large"
        assert sum(at >= j for at in lo) <= whole - j, f"P(lo >= {j}/{whole}) is too large"
    if not ties:
        assert sorted(hi) == list(range(1, whole + 1))
        assert sorted(lo) == list(range(whole))


def check_venn_identity(scores: np.ndarray, labels: np.ndarray) -> None:
    """Among outcomes whose p_Z is p, exactly the share p are successes: E[Z | p_Z] = p_Z."""
    groups: dict[Fraction, list[bool]] = {}
    X = scores[:, None]
    for i in range(labels.size):
        rest = np.arange(labels.size) != i
        venn_abers = VennAbers(lambda rows: np.asarray(rows)[:, 0], Target.at_least(1.0))
        low, _, high = venn_abers.calibrate(X[rest], labels[rest].astype(float)).probability(X[[i]])
        p = Fraction(float(high[0] if labels[i] else low[0])).limit_denominator(labels.size)
        groups.setdefault(p, []).append(bool(labels[i]))
    for p, hits in groups.items():
        assert Fraction(sum(hits), len(hits)) == p, (p, hits)


def dkw(replicates: int) -> float:
    """How far an empirical CDF of that many draws strays with a chance of at most `CHANCE`."""
    return math.sqrt(math.log(2.0 / CHANCE) / (2.0 * replicates))


def check_beta_law(model: object, n: int, level: str, *, seed: int) -> None:
    """With the true CDF, coverage given the calibration set follows Beta(k, n + 1 − k)."""
    rng = np.random.default_rng(seed)
    X, row = np.zeros((n, 1)), np.zeros((1, 1))
    k = math.ceil(Fraction(level) * (n + 1))
    two_sided, one_sided = np.empty(REPLICATES), np.empty(REPLICATES)
    for r in range(REPLICATES):
        pcqr = PCQR(model).calibrate(X, rng.random(n))
        lower, upper = pcqr.interval(row, level)
        two_sided[r] = min(upper[0], 1.0) - max(lower[0], 0.0)
        one_sided[r] = 1.0 - max(float(pcqr.promise(row, level)[0]), 0.0)
    for coverage in (two_sided, one_sided):
        expected = beta(k, n + 1 - k).cdf(np.sort(coverage))
        steps = np.arange(REPLICATES + 1) / REPLICATES
        distance = max(np.max(steps[1:] - expected), np.max(expected - steps[:-1]))
        assert distance <= dkw(REPLICATES), f"distance {distance:.3f} from the Beta law"


def check_rank_is_uniform(n: int, *, seed: int) -> None:
    """One rank per replicate, fresh calibration set and one new outcome: uniform on the grid."""
    rng = np.random.default_rng(seed)
    from known import Uniform

    ranks = np.empty(REPLICATES, dtype=int)
    for r in range(REPLICATES):
        draw = rng.random(n + 1) ** 3  # the model's CDF is wrong, and that does not matter
        pcqr = PCQR(Uniform()).calibrate(np.zeros((n, 1)), draw[:n])
        ranks[r] = round(float(pcqr.cdf(np.zeros((1, 1)), draw[n]).low[0]) * (n + 1)) + 1
    assert ranks.min() >= 1
    assert ranks.max() <= n + 1
    empirical = np.cumsum(np.bincount(ranks, minlength=n + 2)[1:]) / REPLICATES
    distance = np.max(np.abs(empirical - np.arange(1, n + 2) / (n + 1)))
    assert distance <= dkw(REPLICATES), f"distance {distance:.3f} from uniform"


def check_fresh_coverage(one_bit: Callable[[np.random.Generator], bool], p: float) -> None:
    """One bit per replicate, everything fresh: a binomial count with this probability."""
    rng = np.random.default_rng(2)
    replicates = 600
    hits = sum(one_bit(rng) for _ in range(replicates))
    low, high = binom(replicates, p).ppf([CHANCE / 2, 1.0 - CHANCE / 2])
    assert low <= hits <= high, f"{hits} of {replicates} covered, expected {p:.0%}"


def check_unreachable_level_is_refused() -> None:
    """Too few episodes for the level are an error, never a bound that looks like one."""
    from known import Uniform

    pcqr = PCQR(Uniform()).calibrate(np.zeros((8, 1)), np.linspace(0.1, 0.9, 8))
    for ask in (pcqr.interval, pcqr.promise):
        try:
            ask(np.zeros((1, 1)), 0.9)
        except CalibrationError:
            continue
        raise AssertionError(f"{ask.__name__} answered at a level that 8 episodes cannot attain")
