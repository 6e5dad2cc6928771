"""`QuantileNetwork`: a neural network that predicts quantiles of the outcome's rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ontarget._arguments import seed_parts, share, whole_number
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.models._ranked import RankedEstimator, columns_from_arrays
from ontarget.models.base import (
    TrainingRows,
)
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.network._fitting import (
    FittedNetworks,
    NetworkPlan,
    check_time,
    fit_networks,
    ranks_from_arrays,
    ranks_to_arrays,
)
from ontarget.models.network._kernel import (
    TIMES,
    Networks,
    RankedOutcomes,
    knots_of_rows,
    limits_of_knots,
    masses_of_knots,
)
from ontarget.models.stored import flat_array, require

_PREFIX = "network_"
# Inputs are standardised, so weights are small; far beyond this a sum may overflow.
LARGEST_WEIGHT = 1e4
# Wider than any that trains in reasonable time; with it, sums stay far below what float32 holds.
_WIDEST_STORED = 4096
_WEIGHTS = ("first", "first_bias", "second", "second_bias", "head")


def networks_to_arrays(model: Networks) -> dict[str, AnyArray]:
    """The networks as flat read-only arrays by name; all names begin with ``network_``."""
    arrays = model.columns._asdict() | {name: getattr(model, name) for name in _WEIGHTS}
    return {_PREFIX + name: array for name, array in arrays.items()}


def networks_from_arrays(arrays: Mapping[str, AnyArray], n_knots: int) -> Networks:
    """The networks in these arrays, after checking that every index is in bounds."""
    columns = columns_from_arrays(arrays, _PREFIX)
    weights = {name: flat_array(arrays, _PREFIX + name, np.float32) for name in _WEIGHTS}
    for name, values in weights.items():
        small = bool((np.abs(values) <= LARGEST_WEIGHT).all())  # NaN is not
        require(small, f"network_{name} needs numbers up to {LARGEST_WEIGHT:g} in size")
    # Whole numbers of Python, which never wrap around.
    sizes = {name: int(values.size) for name, values in weights.items()}
    total = sizes["first_bias"]
    width = sizes["second"] // total if total else 0
    require(
        1 <= width <= _WIDEST_STORED and total % width == 0,
        "network_second needs whole square matrices, one per network",
    )
    n_networks, n_inputs = total // width, int(columns.codes.size) + TIMES
    wanted = {
        "first": n_networks * n_inputs * width,
        "first_bias": total,
        "second": n_networks * width * width,
        "second_bias": total,
        "head": n_networks * (width + n_inputs + 1) * n_knots,
    }
    for name, size in wanted.items():
        require(sizes[name] == size, f"network_{name} needs {size} numbers, got {sizes[name]}")
    return Networks(columns, **weights)


_WIDEST = 1024


class QuantileNetwork(RankedEstimator):
    """A conditional distribution whose quantiles come from a neural network.

    It is an implicit quantile network, which answers for every level: two hidden layers read the
    row, an embedding reads the level, and their product gives the quantile. One network serves all
    steps of a run. It predicts the rank of a row's outcome, which is the share of the training
    outcomes around the same step that are smaller. So atoms (outcomes with positive probability)
    stay atoms, and outcomes may have any unit and any tails. See method M27 in docs/methods.md.

    `fit` needs PyTorch: ``pip install 'ontarget[network]'``. A fitted or loaded network answers
    without it.

    Parameters
    ----------
    width
        The number of units in each hidden layer.
    n_folds
        Into how many parts the episodes are divided. For each part, one network learns from the
        other parts. Its weights are those that predicted the left-out part best, and it answers for
        that part in `out_of_bag_limits`. For new rows, the quantiles of all networks are averaged.
    max_epochs, patience
        Training ends after ``max_epochs`` passes over the rows, or when ``patience`` consecutive
        passes have improved none of the networks.
    learning_rate
        The highest learning rate of the optimiser, AdamW; the rate rises to it and then falls to 0.
    seed
        One or several whole numbers from 0 up, which determine all random choices. The same seed
        gives exactly the same network on the same machine.
    progress
        Whether to show a progress bar. In a monitor, its own ``fit(progress=…)`` decides instead.
    n_jobs
        At most this many threads for answers; None for all. Training uses one thread, so that its
        result does not depend on the number of threads.

    Attributes
    ----------
    networks_
        The weights of the networks, and how a row's features become their inputs.
    ranks_
        The distribution of the training outcomes around each step.

    Notes
    -----
    Numbers are standardised and clipped at six standard deviations. The most frequent categories
    have a learned vector each; a category that was not in training has none; a missing value has
    its own vector if values were missing in training. An untrained network gives every row the
    distribution of the training outcomes around its step. If training never improves on that for
    the left-out part, the untrained network is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget.models import QuantileNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2_000, 2))
    >>> y = X[:, 0] ** 2 + np.exp(0.5 * X[:, 1]) * rng.normal(size=2_000)
    >>> model = QuantileNetwork(max_epochs=20).fit(X, y)  # doctest: +SKIP
    >>> model.quantile([[0.0, 1.0], [2.0, 1.0]], 0.5).round(1)  # doctest: +SKIP
    array([0.1, 3.9])
    """

    kind: ClassVar[str] = "quantile_network"
    whole_run: ClassVar[bool] = True
    _fitted_by: ClassVar[str] = "ranks_"

    networks_: Networks
    ranks_: RankedOutcomes
    _learned_: FittedNetworks

    def __init__(
        self,
        width: int = 64,
        *,
        n_folds: int = 5,
        max_epochs: int = 40,
        patience: int = 8,
        learning_rate: float = 0.004,
        seed: int | Sequence[int] = 0,
        progress: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_folds = n_folds
        self.max_epochs = max_epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.seed = seed
        self.progress = progress
        self.n_jobs = n_jobs

    def _fit(self, rows: TrainingRows, categorical: tuple[int, ...]) -> None:
        fitted = fit_networks(in_canonical_order(rows), self._plan(), categorical)
        largest = max(float(np.abs(one).max()) for one in fitted.networks[1:])
        if not largest <= LARGEST_WEIGHT:
            raise InputError(
                f"training a QuantileNetwork diverged: a weight became {largest:g}; lower ",
                Argument("learning_rate", self.learning_rate),
            )
        self.ranks_, self.networks_, self._learned_ = fitted.ranks, fitted.networks, fitted

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write `cdf_limits` into ``left`` and ``right``, in this thread; nothing is checked."""
        limits_of_knots(self.ranks_, X, self._knots(X), y, (left, right))

    def _out_of_bag(
        self, rows: FloatArray, values: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        learned = self._learned()
        own = learned.fold[episodes]
        left, right = np.full((2, *values.shape), np.nan)

        def fill(a: int, b: int) -> None:
            for k, ranks in enumerate(learned.without):
                here = a + np.flatnonzero(own[a:b] == k)
                some, knots = rows[here], self._knots(rows[here], (k, k + 1))
                found = np.empty((2, here.size, values.shape[1]))
                limits_of_knots(ranks, some, knots, values[here], (found[0], found[1]))
                left[here], right[here] = found

        self._in_blocks(fill, rows.shape[0])
        return left, right

    def _support_of_law(self) -> tuple[FloatArray, AnyArray, FloatArray]:
        return self.ranks_.support

    def _masses(self, rows: FloatArray) -> FloatArray:
        masses = np.empty((rows.shape[0], self.ranks_.mass.size))
        masses_of_knots(self.ranks_, rows, self._knots(rows), masses)
        return masses

    def _knots(self, rows: FloatArray, which: tuple[int, int] | None = None) -> FloatArray:
        """(rows, levels): the quantiles of each row's rank, as log odds, by some networks."""
        if which is None:
            width = self.networks_.second.size // self.networks_.first_bias.size
            which = 0, self.networks_.first_bias.size // width
        odds = self.ranks_.odds
        knots = np.empty((rows.shape[0], odds.size))
        knots_of_rows(self.networks_, odds, which, rows, knots)
        return knots

    def _arrays(self) -> dict[str, AnyArray]:
        return networks_to_arrays(self.networks_) | ranks_to_arrays(self.ranks_)

    def _restore(self, arrays: Mapping[str, AnyArray]) -> None:
        self.ranks_ = ranks_from_arrays(arrays)
        self.networks_ = networks_from_arrays(arrays, self.ranks_.odds.size)
        self.n_features_in_ = self.networks_.columns.start.size - 1
        check_time(self.ranks_, self.n_features_in_)

    def _plan(self) -> NetworkPlan:
        """The constructor's arguments, after checks."""
        return NetworkPlan(
            width=whole_number("width", self.width, least=1, most=_WIDEST),
            n_folds=whole_number("n_folds", self.n_folds, least=2),
            max_epochs=whole_number("max_epochs", self.max_epochs, least=1),
            patience=whole_number("patience", self.patience, least=1),
            rate=share("learning_rate", self.learning_rate),
            seed=seed_parts(self.seed),
            progress=bool(self.progress),
        )
