"""Which steps share a model (a block), and which models make up the prediction at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from ontarget._arguments import whole_number
from ontarget._arrays import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.errors import InputError

StepsPerModel: TypeAlias = int | Literal["auto"]

# Centres of blocks are at least this far apart, if the horizon is that long.
LEAST_SPACING = 4
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Block:
    """A range of steps that share one model, and the range of steps whose rows train that model."""

    index: int
    start: int
    stop: int
    train_start: int
    train_stop: int

    @property
    def steps(self) -> range:
        """The steps at which the model of this block (range of steps) answers."""
        return range(self.start, self.stop)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Numbers that seed the model of this block (range of steps); different for every block."""
        return (self.start,) if len(self.steps) == 1 else (self.start, self.stop)

    @property
    def train_steps(self) -> range:
        """The steps whose rows the model of this block (range of steps) learns from."""
        return range(self.train_start, self.train_stop)


@dataclass(frozen=True, eq=False)
class LawTable:
    """Which blocks make up the predicted distribution of each step, and with which weights.

    A block is a range of steps that share a model. The prediction at a step is the weighted mixture
    of the models of some blocks. For step t, these are the entries ``starts[t]:starts[t + 1]`` of
    ``blocks`` and ``weights``; the weights are above 0 and add up to 1.

    Examples
    --------
    >>> law = LawTable.of([[(1.0, 0)], [(0.25, 0), (0.75, 1)]])
    >>> law.at(1), law.steps_of(0)
    (((0.25, 0), (0.75, 1)), (0, 1))
    """

    starts: IndexArray
    blocks: IndexArray
    weights: FloatArray

    @classmethod
    def of(cls, lists: Sequence[Sequence[tuple[float, int]]]) -> LawTable:
        """The table made from these lists of (weight, block number) pairs, one list per step.

        A block is a range of steps that share a model.
        """
        entries = [entry for one in lists for entry in one]
        return cls(
            starts=np.cumsum([0, *(len(one) for one in lists)]),
            blocks=np.array([block for _, block in entries], dtype=np.int64),
            weights=np.array([weight for weight, _ in entries], dtype=np.float64),
        )

    def __post_init__(self) -> None:
        for name in ("starts", "blocks", "weights"):
            object.__setattr__(self, name, read_only(getattr(self, name)))
        starts, weights = self.starts, self.weights
        if not (starts.size > 1 and starts[0] == 0 and np.all(starts[1:] > starts[:-1])):
            raise InputError("every step needs at least one block in the table of blocks")
        if starts[-1] != self.blocks.size or self.blocks.size != weights.size:
            raise InputError("the table of blocks needs one block and one weight per entry")
        # Check each weight by itself first, so that no sum overflows.
        right = bool(np.all((weights > 0.0) & (weights <= 1.0)))
        sums = np.add.reduceat(weights, starts[:-1]) if right else np.zeros(1)
        if not np.allclose(sums, 1.0, rtol=0.0, atol=1e-9):
            raise InputError("the weights of a step's blocks need to be above 0 and to sum to 1")

    @property
    def horizon(self) -> int:
        """The number of steps that this table covers."""
        return int(self.starts.size - 1)

    def at(self, t: int) -> tuple[tuple[float, int], ...]:
        """The (weight, block number) pairs whose mixture is the prediction at step t.

        A block is a range of steps that share a model.
        """
        here = slice(self.starts[t], self.starts[t + 1])
        return tuple(zip(self.weights[here].tolist(), self.blocks[here].tolist(), strict=True))

    @cached_property
    def numbers(self) -> IndexArray:
        """(steps,): a number per step; steps with equal numbers have equal blocks and weights.

        Blocks are ranges of steps that share a model; at each step, some of these models are mixed.
        """
        sizes, found, taken = np.diff(self.starts), np.empty(self.horizon, dtype=np.intp), 0
        for size in np.unique(sizes).tolist():
            steps = np.flatnonzero(sizes == size)
            entries = self.starts[steps][:, None] + np.arange(size)
            lists = np.concatenate([self.blocks[entries], self.weights[entries]], axis=1)
            different, which = np.unique(lists, axis=0, return_inverse=True)
            found[steps] = taken + which.reshape(-1)
            taken += len(different)
        return read_only(found)

    def steps_of(self, block: int) -> tuple[int, ...]:
        """The steps whose prediction uses the model of this block (range of steps)."""
        entries = np.flatnonzero(self.blocks == block)
        return tuple((np.searchsorted(self.starts, entries, side="right") - 1).tolist())


def plan_blocks(
    horizon: int,
    *,
    steps_per_model: StepsPerModel = "auto",
    window: int = 0,
    spacing: int | None = None,
    reach: int | None = None,
) -> tuple[tuple[Block, ...], LawTable]:
    """The blocks that cover ``range(horizon)``, and which blocks make up each step's prediction.

    A block is a range of steps that share a model.

    Parameters
    ----------
    horizon
        The number of steps.
    steps_per_model
        ``"auto"``: long blocks that overlap. The prediction at a step is the mixture of the two
        blocks around it, so it does not jump where a block ends (method M16 in docs/methods.md). A
        whole number: blocks of that many steps that do not overlap; each step belongs to one block.
    window
        Only for blocks that do not overlap: a block also learns from this many steps before its
        start and after its end.
    spacing
        The largest distance between the centres of overlapping blocks; by default a quarter of
        ``reach``.
    reach
        How many steps enough runs reach, by default all. The last block also has all later steps.

    Examples
    --------
    >>> blocks, law = plan_blocks(41)
    >>> [(b.start, b.stop) for b in blocks]
    [(0, 10), (1, 20), (11, 30), (21, 40), (31, 41)]
    >>> law.at(20), law.at(25)
    (((1.0, 2),), ((0.5, 2), (0.5, 3)))
    >>> blocks, law = plan_blocks(12, steps_per_model=5)
    >>> [(b.start, b.stop) for b in blocks], law.at(7)
    ([(0, 5), (5, 10), (10, 12)], ((1.0, 1),))
    """
    whole_number("window", window, least=0)
    if steps_per_model == "auto":
        reach = horizon if reach is None else reach
        return blended_blocks(horizon, spacing or first_spacing(reach), reach)
    size = whole_number("steps_per_model", steps_per_model, least=1)
    blocks = tuple(
        Block(
            index=index,
            start=start,
            stop=min(start + size, horizon),
            train_start=max(start - window, 0),
            train_stop=min(start + size + window, horizon),
        )
        for index, start in enumerate(range(0, horizon, size))
    )
    return blocks, LawTable.of([[(1.0, block.index)] for block in blocks for _ in block.steps])


def first_spacing(reach: int) -> int:
    """The distance between the centres of blocks if none is chosen: a quarter of the steps."""
    return max(math.ceil(reach / 4), LEAST_SPACING)


def blended_blocks(horizon: int, spacing: int, reach: int) -> tuple[tuple[Block, ...], LawTable]:
    """Overlapping blocks with centres at most ``spacing`` steps apart, and their weights per step.

    A block is a range of steps that share a model. It extends to the centres of its two neighbours.
    The weight of a block falls linearly from 1 at its own centre to 0 at its neighbours' centres.
    The centres are among the first ``reach`` steps; later steps belong to the last block alone.
    """
    n_gaps = math.ceil((reach - 1) / spacing)
    centres = np.linspace(0.0, reach - 1.0, n_gaps + 1)
    gap = centres[1] if n_gaps else 1.0
    places = np.minimum(np.arange(horizon), reach - 1)
    weights = np.maximum(0.0, 1.0 - np.abs(places[:, None] - centres) / gap)
    weights[weights < _NEGLIGIBLE] = 0.0  # the centres of neighbours, up to rounding
    weights /= weights.sum(axis=1, keepdims=True)
    blocks = []
    for index in range(centres.size):
        steps = np.flatnonzero(weights[:, index])
        start, stop = int(steps[0]), int(steps[-1]) + 1
        blocks.append(Block(index, start, stop, start, stop))
    lists = [[(row[j], j) for j in range(len(row)) if row[j]] for row in weights.tolist()]
    return tuple(blocks), LawTable.of(lists)


def opened(law: LawTable, share: float) -> LawTable:
    """The table of blocks with one more block, for a separate model of the first step.

    A block is a range of steps that share a model. The new block has the share ``share`` of the
    weight at the first step, and none at other steps. It gets the next free number.

    Examples
    --------
    >>> opened(LawTable.of([[(1.0, 0)], [(0.5, 0), (0.5, 1)]]), 0.25).at(0)
    ((0.75, 0), (0.25, 2))
    """
    own = int(law.blocks.max()) + 1
    first = [((1.0 - share) * weight, block) for weight, block in law.at(0)]
    lists = [[*first, (share, own)], *(law.at(t) for t in range(1, law.horizon))]
    return LawTable.of([[entry for entry in one if entry[0] > 0.0] for one in lists])
