"""Means and standard deviations of results, over random divisions (partitions) of the episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontarget.episodes import uniform_by_id
from ontarget.evaluation import Reliability, coverage_band, reliability
from ontarget.paper.experiment import METHODS, Part
from ontarget.paper.plan import PAPER, Mode, Plan

# The parts of every partition, by domain and mode.
Parts = Mapping[tuple[str, Mode], Sequence[Part]]

# A probability that has not converged is neither below the first nor above the second.
OPEN = (0.05, 0.95)


def mean_sd(values: Iterable[float | None]) -> dict[str, Any]:
    """The mean and standard deviation of results, one per partition, and the results themselves.

    A partition is a random division of the episodes. Partitions without a value (None or NaN) are
    left out.

    Examples
    --------
    >>> mean_sd([1.0, 3.0, None])
    {'mean': 2.0, 'sd': 1.4142135623730951, 'each': [1.0, 3.0, nan]}
    """
    each = np.array([np.nan if value is None else value for value in values])
    some = each[~np.isnan(each)]
    mean = float(some.mean()) if some.size else float("nan")
    sd = float(some.std(ddof=1)) if some.size > 1 else 0.0
    return {"mean": mean, "sd": sd, "each": each.tolist()}


def summarize(plan: Plan, parts: Parts) -> dict[str, Any]:
    """All numbers for the main table and the figures, by domain and mode.

    The mode is with noise or without.
    """
    return {
        domain: {
            "paper": PAPER[domain]._asdict(),
            **{
                mode: _of_domain(plan, own) for (name, mode), own in parts.items() if name == domain
            },
        }
        for domain in plan.domains
    }


def open_share(part: Part) -> NDArray[np.float64]:
    """(steps,): the share of test episodes whose lower bound p_low is not close to 0 or 1."""
    p = part.p_low
    share: NDArray[np.float64] = ((p > OPEN[0]) & (p < OPEN[1])).mean(axis=1)
    return share


def _at_an_end(part: Part) -> float:
    """Of the episodes still open at the last step, the share with an outcome at a target's limit.

    Open means that the probability is not close to 0 or 1. An outcome counts as being at a limit if
    it is within twice the noise, because the outcome and the limit both have noise.
    """
    p = part.p_low[-1]
    still = (p > OPEN[0]) & (p < OPEN[1])
    distance = np.abs(part.outcomes[:, None] - part.target).min(axis=1)
    return float((distance[still] <= 1e-5 * (1 + 1e-6)).mean()) if still.any() else float("nan")


def pooled_reliability(plan: Plan, parts: Sequence[Part]) -> Reliability:
    """How often forecasts came true, for the lower bound p_low of all steps and partitions.

    A partition is a random division of the episodes. Confidence intervals come from resampling
    whole episodes.
    """
    p = np.concatenate([part.p_low.ravel() for part in parts])
    met = np.concatenate([np.broadcast_to(part.met, part.low.shape).ravel() for part in parts])
    ids = np.concatenate([np.broadcast_to(part.ids, part.low.shape).ravel() for part in parts])
    return reliability(p, met, plan.bins, episode=ids)


def ten_episodes(plan: Plan, part: Part) -> NDArray[np.intp]:
    """The positions of ten random test episodes: eight that met the target and two that missed it.

    Eight in ten of all episodes meet the target. Without this rule, one draw in nine would show no
    failure.
    """
    order: NDArray[np.intp] = np.argsort(uniform_by_id(part.ids, plan.seed, "ten episodes"))
    met = part.met[order]
    return np.sort(np.concatenate((order[met][:8], order[~met][:2])))


def summarize_forecasts(parts: Sequence[Part]) -> dict[str, Any]:
    """How good the probabilities are: their calibration error, and their scores.

    The scores are compared with those of raw forecasts (before calibration).
    """
    together: NDArray[np.float64] = np.sum([part.bins for part in parts], axis=0)
    scores = {"brier": [part.brier for part in parts], "log_loss": [p.log_loss for p in parts]}
    return {
        "ece": {m: mean_sd(part.pooled_ece(m) for part in parts) for m in METHODS},
        "ece_all_partitions": {m: _pooled(together[i].sum(axis=0)) for i, m in enumerate(METHODS)},
        **{
            name: {m: mean_sd(one[i].mean() for one in each) for i, m in enumerate(METHODS)}
            for name, each in scores.items()
        },
        "brier_minus_raw": _against_raw(parts),
    }


def _against_raw(parts: Sequence[Part]) -> dict[str, Any]:
    """By how much calibration changes the Brier score, on average, with its standard error.

    It is the mean difference between the Brier scores of p and of the raw forecasts for the same
    steps. The paper's method counts only n calibration episodes. So it raises the Brier score even
    if the model's predicted distribution is perfect: by the variance p(1 − p)/(n + 2) of the
    counted share. On average that is the Brier score of perfect forecasts divided by n + 2; the
    result ``price`` estimates it from the score of p.
    """
    own, raw = METHODS.index("p"), METHODS.index("raw")
    found = mean_sd(float((part.brier[own] - part.brier[raw]).mean()) for part in parts)
    price = mean_sd(float(part.brier[own].mean()) / (part.n + 2) for part in parts)["mean"]
    return {**found, "se": found["sd"] / len(parts) ** 0.5, "price": price}


def _of_domain(plan: Plan, parts: Sequence[Part]) -> dict[str, Any]:
    band = coverage_band(plan.calibrate, plan.test, plan.level)
    steps = {
        method: {
            "ece": _by_step([part.ece_by_step(method) for part in parts]),
            "mean": _by_step([part.mean_by_step(method) for part in parts]),
        }
        for method in METHODS
    }
    return {
        "coverage": mean_sd(part.interval[0] for part in parts),
        "coverage_band": list(band),
        "coverage_in_band": [float(part.interval[0]) in band for part in parts],
        "width": mean_sd(part.interval[1] for part in parts),
        "target": [part.target.tolist() for part in parts],
        "met": mean_sd(float(part.met.mean()) for part in parts),
        **summarize_forecasts(parts),
        "by_step": steps,
        "open_share": _by_step([open_share(part) for part in parts]),
        "open_at_an_end": mean_sd(_at_an_end(part) for part in parts),
    }


def _by_step(curves: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    table = np.array(curves)
    sd = table.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(table.shape[1])
    return {"mean": table.mean(axis=0).tolist(), "sd": sd.tolist()}


def _pooled(bins: NDArray[np.float64]) -> float:
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())
