"""A collection of numbers from 0 to 1 that needs constant memory: it counts them in cells."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

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
        """How many numbers of the bag are below ``score``, and how many equal it.

        The score is not added.
        """
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
