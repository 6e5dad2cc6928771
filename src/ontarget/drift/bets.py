"""The bets behind the drift guard: a bag of numbers, the money won, and states kept as JSON."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ontarget._arguments import usable_path
from ontarget._keyed import keyed_hash, keyed_uniform
from ontarget._typing import ArrayLike, FloatArray
from ontarget._whole_file import write_whole
from ontarget.conformal.levels import Level, exact_level
from ontarget.conformal.ranks import draw_ranks
from ontarget.errors import InputError, ModelFileError
from ontarget.fitted.fitted import Fitted

_LEVELS = 16
CELLS = 1 << _LEVELS


class Place(NamedTuple):
    """How many numbers of a `Bag` are in cells below a given number, in its cell, and in all."""

    below: int
    same: int
    total: int


class Bag:
    """A growing collection of numbers from 0 to 1, of which only counts are kept.

    The range from 0 to 1 is divided into 65,536 cells. Numbers in the same cell count as equal, and
    the caller breaks ties at random (method M10 in docs/methods.md). So only differences below
    1/65,536 are lost, and a collection of any size needs half a megabyte.
    """

    __slots__ = ("_counts", "_sums", "_total")

    def __init__(self, scores: Iterable[float] = ()) -> None:
        self._counts = array("q", bytes(8 * CELLS))
        self._sums = array("q", bytes(8 * (CELLS + 1)))  # a Fenwick tree over the cells
        self._total = 0
        for score in scores:
            self.add(score)

    def place(self, score: float) -> Place:
        """How many numbers of the bag are below ``score``, and how many equal it."""
        cell = _cell(score)
        below, i = 0, cell
        while i:
            below += self._sums[i]
            i &= i - 1
        return Place(below, self._counts[cell], self._total)

    def add(self, score: float) -> None:
        """Add one number from 0 to 1 to this collection."""
        self._put(_cell(score), 1)

    def _put(self, cell: int, count: int) -> None:
        self._counts[cell] += count
        self._total += count
        i = cell + 1
        while i <= CELLS:
            self._sums[i] += count
            i += i & -i

    def copy(self) -> Bag:
        """An independent copy of this collection."""
        twin = Bag()
        twin._counts, twin._sums, twin._total = self._counts[:], self._sums[:], self._total
        return twin

    def to_json(self) -> list[list[int]]:
        """Two lists: which cells are not empty, by position, and how many numbers each contains."""
        cells = [cell for cell, count in enumerate(self._counts) if count]
        return [cells, [self._counts[cell] for cell in cells]]

    @classmethod
    def from_json(cls, kept: list[list[int]]) -> Bag:
        """The collection that `to_json` described; a `ValueError` if the data are not valid."""
        bag = cls()
        for cell, count in zip(*kept, strict=True):
            if not (0 <= cell < CELLS and count > 0):
                raise ValueError(
                    f"a bag needs cells from 0 to {CELLS - 1} with at least 1 score, got cell "
                    f"{cell} with {count}"
                )
            bag._put(cell, count)
        return bag


def _cell(score: float) -> int:
    return min(max(int(score * CELLS), 0), CELLS - 1)


_JUMP = 0.01
_DRAWN = 256  # random numbers drawn at a time; NumPy takes hardly longer than for one


class DriftReading(NamedTuple):
    """The evidence of drift after n episodes.

    ``p``, from 0 to 1, is where the last episode ranks among all earlier ones; without drift it is
    uniform. ``evidence`` is the money of a gambler who started with 1 and bets on a change: as long
    as nothing changes, it reaches 1/(1 − level), the alarm, with probability at most 1 − level.
    """

    n: int
    p: float
    evidence: float
    alarm: bool


class _Jumper:
    """A bet that numbers from 0 to 1 are not uniform; statisticians call it a test martingale.

    Several gamblers share the money. Each multiplies its share by 1 + slope · (number − ½), with a
    slope of its own: so one bets on high numbers, one on low numbers, one on neither. Before every
    number, a small part of the money is divided equally among the gamblers, so that the bet can
    switch.
    """

    __slots__ = ("_log_wealth", "_shares", "_slopes")

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        self._shares = [1.0 / len(self._slopes)] * len(self._slopes)
        self._log_wealth = 0.0

    def bet(self, u: float) -> float:
        """Bet on one more number u from 0 to 1; returns the logarithm of all the money."""
        even = _JUMP / len(self._slopes)
        grown = [
            ((1.0 - _JUMP) * share + even) * (1.0 + slope * (u - 0.5))
            for share, slope in zip(self._shares, self._slopes, strict=True)
        ]
        total = sum(grown)
        self._shares = [part / total for part in grown]
        self._log_wealth += math.log(total)
        return self._log_wealth

    def to_json(self) -> list[float]:
        """Each gambler's share of the money, then the logarithm of all the money."""
        return [*self._shares, self._log_wealth]

    def restore(self, kept: Sequence[float]) -> None:
        """Continue the bet from what `to_json` returned; a `ValueError` if that does not fit."""
        *shares, log_wealth = (float(one) for one in kept)
        whole = len(shares) == len(self._slopes) and abs(sum(shares) - 1.0) < 1e-9
        if not (whole and min(shares) >= 0.0 and math.isfinite(log_wealth)):
            raise ValueError(
                f"the gamblers' shares need {len(self._slopes)} numbers from 0 up that sum to 1, "
                f"got {shares}"
            )
        self._shares, self._log_wealth = shares, log_wealth


class _Bet:
    """The average of several bets on where each episode ranks among the earlier episodes."""

    slopes: ClassVar[tuple[tuple[float, ...], ...]]  # for each bet, the slopes of its gamblers

    def __init__(self, scores: ArrayLike, *, seed: int, level: Level) -> None:
        missed = float(1 - exact_level(level))
        self._bag = Bag(np.asarray(scores, dtype=np.float64).tolist())
        self._seed = seed
        self._log_limit = -math.log(missed)
        self._jumpers = [_Jumper(slopes) for slopes in self.slopes]
        self._n = 0
        self._draws: list[float] = []
        self._alarm = False

    def observe_noted(self, noted: ArrayLike) -> list[DriftReading]:
        """The evidence of a change after each of several episodes."""
        scores = self._scores(np.asarray(noted, dtype=np.float64))
        return [self.observe(score) for score in scores.tolist()]

    def _tie(self) -> float:
        """A random number from 0 to 1, which breaks the tie between episodes with equal scores.

        The number depends on a running count, not on the episode's id: a repeated id would repeat a
        random number, and that would look like drift.
        """
        place = self._n % _DRAWN
        if not (place and self._draws):
            first = self._n - place
            keys = np.arange(first, first + _DRAWN, dtype=np.uint64)
            self._draws = keyed_uniform(keys, self._seed, "drift").tolist()
        return self._draws[place]

    def observe(self, score: float) -> DriftReading:
        """The evidence of a change after one more finished episode, given its score from 0 to 1."""
        place = self._bag.place(score)
        p = (place.below + self._tie() * (place.same + 1)) / (place.total + 1)
        self._bag.add(score)  # without this there would be too many false alarms (M10)
        self._n += 1
        logs = [jumper.bet(one) for jumper, one in zip(self._jumpers, self._bets(p), strict=True)]
        highest = max(logs)
        total = sum(math.exp(one - highest) for one in logs) / len(logs)
        log_evidence = highest + math.log(total)
        self._alarm = self._alarm or log_evidence >= self._log_limit
        return DriftReading(self._n, p, math.exp(min(log_evidence, 700.0)), self._alarm)

    def _scores(self, noted: FloatArray) -> FloatArray:
        """(episodes,): the score of each, a number from 0 to 1; episodes are ranked by it."""
        raise NotImplementedError

    def _bets(self, p: float) -> tuple[float, ...]:
        """For each of the bets, the number from 0 to 1 that its gamblers bet on."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The state of this bet on a change, as plain values for JSON."""
        return {
            "bag": self._bag.to_json(),
            "jumpers": [one.to_json() for one in self._jumpers],
            "n": self._n,
            "alarm": self._alarm,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Continue the bet from what `to_json` returned."""
        bag = Bag.from_json(kept["bag"])
        for jumper, own in zip(self._jumpers, kept["jumpers"], strict=True):
            jumper.restore(own)
        n = int(kept["n"])
        if not 0 <= n < 2**53:
            raise ValueError(f"a number of episodes cannot be {n}")
        self._bag, self._n, self._alarm = bag, n, bool(kept["alarm"])
        self._draws = []


class DriftBet(_Bet):
    """Evidence that outcomes have changed relative to what was predicted for them.

    There are two bets: that outcomes are higher or lower than before, and that they are more or
    less spread out. See method M10 in docs/methods.md.
    """

    slopes = ((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0))

    def __init__(self, ranks: ArrayLike, *, seed: int = 0, level: Level = 0.99, t: int = 0) -> None:
        super().__init__(ranks, seed=seed, level=level)
        self._t = t

    def _scores(self, noted: FloatArray) -> FloatArray:
        counts = np.arange(self._n, self._n + len(noted), dtype=np.uint64)
        keys = keyed_hash(counts, self._seed, "drift rank")
        return draw_ranks(noted[:, 0], noted[:, 1], keys, seed=self._seed, step=self._t)

    def _bets(self, p: float) -> tuple[float, ...]:
        return p, abs(2.0 * p - 1.0)


class HarmBet(_Bet):
    """Evidence that p has become too high: a bet that the mean of p − z has risen.

    z is 1 for an episode that met the target, and 0 otherwise. New episodes are compared with the
    assure episodes, so only a rise counts, not a bias that was there from the beginning. If p − z
    falls because runs end better than predicted, the gambler loses money. See method M26 in
    docs/methods.md.
    """

    slopes = ((0.0, 0.5, 1.0, 2.0),)

    def __init__(self, excess: ArrayLike, *, seed: int = 0, level: Level = 0.99) -> None:
        given = np.asarray(excess, dtype=np.float64)
        super().__init__((given + 1.0) / 2.0, seed=seed, level=level)

    def _scores(self, noted: FloatArray) -> FloatArray:
        return (noted[:, 0] + 1.0) / 2.0

    def _bets(self, p: float) -> tuple[float, ...]:
        return (p,)


KEPT_FORMAT: Final = 1


@dataclass(frozen=True)
class KeptFor:
    """Says which drift test (guard) a saved state belongs to.

    Only a guard for which all these fields are the same can continue from the state. ``kind`` is
    "drift" or "harm". ``monitor`` is a hash of what new episodes are compared with. ``target`` is
    empty unless the state is about one target.
    """

    kind: str
    monitor: str
    t: int
    level: str
    group: str
    target: str = ""

    @classmethod
    def of(cls, kind: str, fitted: Fitted, t: int, level: object, group: int) -> KeptFor:
        """The fields for a guard of this monitor, at this step and group."""
        name = "" if fitted.groups is None else str(fitted.groups[group])
        return cls(kind, digest_of(fitted), t, str(level), name)


def digest_of(fitted: Fitted) -> str:
    """A hash that identifies the monitor: of its results on held-out episodes, and its seed."""
    parts = (fitted.ranks.values.tobytes(), fitted.excess.tobytes(), str(fitted.trained.seed))
    text = b"".join(one.encode() if isinstance(one, str) else one for one in parts)
    return blake2b(text, digest_size=16).hexdigest()


def write_kept(path: str | Path, about: KeptFor, state: Mapping[str, Any]) -> None:
    """Write the state of a guard to a file, completely or not at all."""
    kept = {"format": KEPT_FORMAT, "about": asdict(about), **state}
    write_whole(Path(path), [json.dumps(kept, separators=(",", ":")).encode()])


def read_kept(path: str | Path, about: KeptFor) -> dict[str, Any]:
    """The state in a file that `write_kept` wrote."""
    place = usable_path(path, error=ModelFileError)
    if place.exists() and not place.is_file():  # a pipe could keep us waiting forever
        raise ModelFileError(f"{path}: this is not a regular file; pass one that save wrote")
    try:
        kept: dict[str, Any] = json.loads(place.read_bytes())
        version, found = kept["format"], dict(kept["about"])
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read: {error.strerror}") from error
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: this is not a file that the save method of a guard wrote"
        ) from error
    if version != KEPT_FORMAT:
        raise ModelFileError(
            f"{path}: the file needs format {KEPT_FORMAT}, got {version!r}; start again without "
            f"resume="
        )
    for name, own in asdict(about).items():
        if found.get(name) != own:
            raise InputError(
                f"{path}: the saved guard is for another {name}, {found.get(name)!r}, not "
                f"{own!r}; resume it with the same arguments and the same model file"
            )
    return kept
