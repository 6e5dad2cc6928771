"""The sizes of the reproduction, full and quick, and the values that the paper reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ontarget import QuantileForest
from ontarget.errors import InputError

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

    Examples
    --------
    >>> FULL.test
    5000
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
