"""The paper's experiment: its sizes, the values it reports, and its divided episodes.

The paper adds uniform noise to every outcome so that no two are equal. Elsewhere in this library,
outcomes are rounded to a grid, which would leave about ten different values of noise so small. So
the mode "noise" does not round: errors of sums are a billionth of the noise, and no comparison
depends on them. The mode "atoms" adds no noise and rounds as usual, so many outcomes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ontarget import PCQR, Interval, QuantileForest, RawInverse, Target
from ontarget.domains import simulate
from ontarget.episodes import Episodes, PaperSplit, uniform_by_id
from ontarget.errors import InputError
from ontarget.evaluation import (
    Reliability,
    bin_of,
    brier,
    coverage,
    coverage_band,
    log_loss,
    mean_width,
    reliability,
)

Mode: TypeAlias = Literal["noise", "atoms"]
MODES: Final[tuple[Mode, ...]] = ("noise", "atoms")

# How each domain is named to a reader, next to the paper's.
LABELS: Final = {
    "skirmish": "Skirmish (surrogate)",
    "smax": "SMAX (JaxMARL's engine)",
    "tamarisk": "Tamarisk",
}


class Reported(NamedTuple):
    """The results that the paper reports for a domain: means and standard deviations.

    They are over five partitions (random divisions of the episodes).
    """

    name: str
    coverage: float
    coverage_sd: float
    ece: float
    ece_sd: float


_STARCRAFT: Final = Reported("StarCraft 2", 0.8032, 0.0107, 0.013, 0.0018)
PAPER: Final = {
    "skirmish": _STARCRAFT,
    "smax": _STARCRAFT,
    "tamarisk": Reported("Tamarisk", 0.7989, 0.0079, 0.004, 0.0005),
}


@dataclass(frozen=True)
class Plan:
    """The sizes of a reproduction; the defaults are the paper's.

    Parameters
    ----------
    domains
        The names of the simulated domains.
    episodes, train, calibrate
        How many episodes are simulated per domain, and how many of them are for training and for
        calibration; the rest is for testing.
    partitions
        How many times the episodes are divided at random.
    n_trees, min_leaf
        The forest of each step. The paper gives neither; ours are `QuantileForest`'s own defaults,
        as in ``GoalMonitor(preset="paper")``.
    level
        The level of the prediction intervals at t = 0.
    bins
        The number of bins for the expected calibration error.
    seed
        The seed from which every random number follows.
    quick
        Whether this is a shortened version, which is labelled as such.
    """

    domains: tuple[str, ...] = ("tamarisk", "skirmish")
    episodes: int = 10_000
    train: int = 2_500
    calibrate: int = 2_500
    partitions: int = 5
    n_trees: int = 100
    min_leaf: int = 15
    level: float = 0.8
    bins: int = 30
    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        sizes = ("train", "calibrate", "partitions", "n_trees", "min_leaf", "bins")
        for name in (*sizes, "seed"):
            value, least = getattr(self, name), 0 if name == "seed" else 1
            if not isinstance(value, int) or value < least:
                raise InputError(f"`{name}` needs a whole number from {least} up, got {value!r}")
        unknown = [name for name in self.domains if name not in PAPER]
        if unknown or not self.domains:
            raise InputError(f"`domains` needs some of {', '.join(PAPER)}, got {self.domains!r}")
        if self.test < 1:
            raise InputError(
                f"`episodes` needs more than train + calibrate ({self.train + self.calibrate}), "
                f"got {self.episodes}"
            )

    @property
    def test(self) -> int:
        """The number of test episodes."""
        return self.episodes - self.train - self.calibrate

    def with_seed(self, seed: int) -> Plan:
        """The same plan with another seed."""
        return replace(self, seed=seed)

    def forest(self, partition: int, t: int) -> QuantileForest:
        """The unfitted forest for step t and one random division (partition) of the episodes."""
        return QuantileForest(self.n_trees, self.min_leaf, seed=(self.seed, partition, t))

    def describe(self) -> dict[str, Any]:
        """The plan as plain values, to be stored in files."""
        return {**asdict(self), "test": self.test}


FULL: Final = Plan()
QUICK: Final = Plan(episodes=2_000, train=500, calibrate=500, partitions=2, n_trees=50, quick=True)


_HALF_NOISE: Final = 5e-6
# The lower bound, the middle and the upper bound of PCQR⁻¹, and the forest's own probability.
METHODS: Final = ("low", "p", "high", "raw")
# A probability that has not converged is neither below the first nor above the second.
OPEN = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Rows:
    """Episodes at one step: a model's inputs, what it should predict, and the behavior so far."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    offset: NDArray[np.float64]
    ids: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Partition:
    """One random division of a domain's episodes, with the paper's noise or without."""

    number: int
    mode: Mode
    seed: int
    grid: float | None
    train: Episodes
    calibrate: Episodes
    test: Episodes

    def rows(self, part: Episodes, t: int) -> Rows:
        """The inputs and outputs of a model at step t, for the episodes of one part."""
        step = part.at(t, grid=self.grid)
        remaining = step.response if self.mode == "atoms" else self._outcomes(part) - step.behavior
        return Rows(step.states, remaining, step.behavior, step.ids)

    @cached_property
    def outcomes(self) -> NDArray[np.float64]:
        """The outcomes of the test episodes."""
        return self._outcomes(self.test)

    @cached_property
    def target(self) -> Target:
        """The paper's target: from the 10 % to the 90 % quantile of the test episodes' outcomes."""
        low, high = np.quantile(self.outcomes, [0.1, 0.9], method="inverted_cdf")
        return Target(float(low), float(high))

    @cached_property
    def met(self) -> NDArray[np.bool_]:
        """(tests,): whether each test episode ended inside the target."""
        return self.target.contains(self.outcomes, self.grid)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the categorical features."""
        return self.train.schema.categorical

    def _outcomes(self, part: Episodes) -> NDArray[np.float64]:
        if self.mode == "atoms":
            return part.at(0, grid=self.grid).outcomes
        # Every episode of both domains lives to the horizon, so each is alive at every step.
        uniform = uniform_by_id(part.ids, self.seed, "paper noise")
        return part.outcomes + _HALF_NOISE * (2.0 * uniform - 1.0)


def simulated(plan: Plan, domain: str) -> Episodes:
    """The domain's simulated episodes."""
    return simulate(domain, plan.episodes, plan.seed, progress=False)


def train_and_calibrate(plan: Plan, episodes: Episodes, number: int) -> PaperSplit:
    """Divide the episodes as the paper does: to train, to calibrate, and the rest to test."""
    return episodes.split(
        train=plan.train, calibrate=plan.calibrate, assure=0, seed=split_seed(plan, number)
    )


def partition_of(plan: Plan, episodes: Episodes, number: int, mode: Mode) -> Partition:
    """Random division (partition) ``number`` of the episodes."""
    parts = train_and_calibrate(plan, episodes, number)
    assert parts.rest is not None  # the plan leaves episodes to test on
    return Partition(
        number,
        mode,
        plan.seed,
        parts.train.grid if mode == "atoms" else None,
        parts.train,
        parts.calibrate,
        parts.rest,
    )


def split_seed(plan: Plan, number: int) -> int:
    """The seed of partition ``number``: a thousand per seed, so that no two seeds share one."""
    return 1_000 * plan.seed + number


@dataclass(frozen=True, eq=False)
class Part:
    """The results of one partition: lower bounds of the probability, and data for the measures.

    A partition is one random division of the episodes.
    """

    low: NDArray[np.integer]
    met: NDArray[np.bool_]
    ids: NDArray[Any]
    outcomes: NDArray[np.float64]
    target: NDArray[np.float64]
    bins: NDArray[np.float64]
    brier: NDArray[np.float64]
    log_loss: NDArray[np.float64]
    interval: NDArray[np.float64]
    n: int

    @property
    def p_low(self) -> NDArray[np.float64]:
        """(steps, tests): the lower bound of the probability for each test episode at each step."""
        return self.low / (self.n + 1)

    def ece_by_step(self, method: str) -> NDArray[np.float64]:
        """The expected calibration error of this method's forecasts at each step."""
        return _ece(self.bins[METHODS.index(method)])

    def pooled_ece(self, method: str) -> float:
        """The expected calibration error of this method's forecasts of all steps together."""
        return float(_ece(self.bins[METHODS.index(method)].sum(axis=0)))

    def mean_by_step(self, method: str) -> NDArray[np.float64]:
        """The mean forecast of each step."""
        sums = self.bins[METHODS.index(method)].sum(axis=1)
        mean: NDArray[np.float64] = sums[:, 1] / sums[:, 0]
        return mean


def calibrated_at(plan: Plan, partition: Partition, t: int) -> PCQR:
    """The paper's calibrated method (PCQR) for step t, on a plain forest."""
    train = partition.rows(partition.train, t)
    rows = partition.rows(partition.calibrate, t)
    forest = plan.forest(partition.number, t).fit(
        train.X, train.y, ids=train.ids, categorical=partition.categorical
    )
    return PCQR(forest, grid=partition.grid).calibrate(
        rows.X, rows.y, ids=rows.ids, seed=plan.seed, step=t
    )


def run_partition(plan: Plan, partition: Partition, tick: Callable[[], object]) -> Part:
    """The paper's whole experiment on one random division (partition) of the episodes."""
    horizon = partition.test.horizon
    panels = np.empty((len(METHODS), horizon, len(partition.test)))
    for t in range(horizon):
        pcqr, rows = calibrated_at(plan, partition, t), partition.rows(partition.test, t)
        asked = (rows.X, partition.target, rows.offset)
        panels[:3, t] = pcqr.probability(*asked)
        panels[3, t] = RawInverse(pcqr.model, grid=partition.grid).probability(*asked).p
        if t == 0:
            interval = pcqr.interval(rows.X, plan.level)
        tick()
    return part_of(plan, partition, panels, interval, plan.calibrate)


def part_of(
    plan: Plan, partition: Partition, panels: NDArray[np.float64], interval: Interval, n: int
) -> Part:
    """The results of a partition, from the probabilities of each method and intervals at t = 0."""
    met, end = partition.met, partition.target.components[0]
    return Part(
        low=np.rint(panels[0] * (n + 1)).astype(np.int32),
        met=met,
        ids=partition.test.ids,
        outcomes=partition.outcomes,
        target=np.array([end.lower, end.upper]),
        bins=np.array([[_binned(p, met, plan.bins) for p in panel] for panel in panels]),
        brier=np.array([[brier(p, met) for p in panel] for panel in panels]),
        log_loss=np.array([[log_loss(p, met, n_calibration=n) for p in panel] for panel in panels]),
        interval=np.array(
            [coverage(*interval, partition.outcomes).value, mean_width(*interval)],
        ),
        n=n,
    )


def _binned(p: NDArray[np.float64], met: NDArray[np.bool_], bins: int) -> NDArray[np.float64]:
    places = bin_of(p, bins)
    sums = (np.bincount(places, weights=w, minlength=bins) for w in (np.ones(p.size), p, met))
    return np.stack(list(sums), axis=-1)


def _ece(bins: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expected calibration error, from sums over bins of forecasts."""
    gaps = np.abs(bins[..., 1] - bins[..., 2]).sum(axis=-1)
    error: NDArray[np.float64] = gaps / bins[..., 0].sum(axis=-1)
    return error


# The parts of every partition, by domain and mode.
Parts = Mapping[tuple[str, Mode], Sequence[Part]]


def mean_sd(values: Iterable[float | None]) -> dict[str, Any]:
    """The mean and standard deviation of results, one per partition, and the results themselves."""
    each = np.array([np.nan if value is None else value for value in values])
    some = each[~np.isnan(each)]
    mean = float(some.mean()) if some.size else float("nan")
    sd = float(some.std(ddof=1)) if some.size > 1 else 0.0
    return {"mean": mean, "sd": sd, "each": each.tolist()}


def summarize(plan: Plan, parts: Parts) -> dict[str, Any]:
    """All numbers for the main table and the figures, by domain and mode."""
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
    """Of the episodes still open at the last step, the share that ends at a target's limit."""
    # Open means that the probability is not close to 0 or 1. An outcome counts as being at a limit
    # if it is within twice the noise, because the outcome and the limit both have noise.
    p = part.p_low[-1]
    still = (p > OPEN[0]) & (p < OPEN[1])
    distance = np.abs(part.outcomes[:, None] - part.target).min(axis=1)
    return float((distance[still] <= 1e-5 * (1 + 1e-6)).mean()) if still.any() else float("nan")


def pooled_reliability(plan: Plan, parts: Sequence[Part]) -> Reliability:
    """How often forecasts came true, for the lower bound p_low of all steps and partitions."""
    p = np.concatenate([part.p_low.ravel() for part in parts])
    met = np.concatenate([np.broadcast_to(part.met, part.low.shape).ravel() for part in parts])
    ids = np.concatenate([np.broadcast_to(part.ids, part.low.shape).ravel() for part in parts])
    return reliability(p, met, plan.bins, episode=ids)


def ten_episodes(plan: Plan, part: Part) -> NDArray[np.intp]:
    """The positions of ten random test episodes: eight that met the target, two that missed."""
    # Eight in ten of all episodes meet the target. Without this rule, one draw in nine would show
    # no failure.
    order: NDArray[np.intp] = np.argsort(uniform_by_id(part.ids, plan.seed, "ten episodes"))
    met = part.met[order]
    return np.sort(np.concatenate((order[met][:8], order[~met][:2])))


def summarize_forecasts(parts: Sequence[Part]) -> dict[str, Any]:
    """How good the probabilities are: their calibration error, and their scores."""
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
    """By how much calibration changes the Brier score, on average, with its standard error."""
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
