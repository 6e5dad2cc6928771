"""`QuantileNetwork`: a neural network that predicts quantiles of the outcome's rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ontarget._arguments import seed_parts, share, whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import DistributionEstimator
from ontarget.models._ranked import columns_from_arrays
from ontarget.models.base import (
    check_categorical,
    check_values,
    episodes_of,
)
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.network._fitting import (
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
    quantiles_of_knots,
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
_BLOCK = 256


class QuantileNetwork(DistributionEstimator):
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

    networks_: Networks
    ranks_: RankedOutcomes
    # The outcomes around each step without each fold, the fold of each episode, the episodes' ids.
    _learned_: tuple[tuple[RankedOutcomes, ...], IndexArray, KeyArray | None]

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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        steps: ArrayLike | None = None,
        categorical: Sequence[int] | None = None,
    ) -> Self:
        """Train the networks on these rows; returns the model.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row. A row is ranked among outcomes around its step. A
            feature that equals the step in every row is used as the time.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        plan = self._plan()
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns = check_categorical(categorical, rows.X.shape[1])
        with threads_at_most(self.n_jobs):
            fitted = fit_networks(in_canonical_order(rows), plan, columns)
        largest = max(float(np.abs(one).max()) for one in fitted.networks[1:])
        if not largest <= LARGEST_WEIGHT:
            raise InputError(
                f"training a QuantileNetwork diverged: a weight became {largest:g}; lower ",
                Argument("learning_rate", self.learning_rate),
            )
        self.ranks_, self.networks_ = fitted.ranks, fitted.networks
        self._learned_ = fitted.without, fitted.fold, rows.keys
        return self

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        left[...], right[...] = self._limits_by(self.ranks_, self._all, rows, values)

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, by a network without the row's episode.

        The episodes are divided into parts (folds). A row is answered by the network that left out
        the part with its episode, so the answer is like one for a new episode.

        Parameters
        ----------
        X
            Rows of training episodes. They may be of steps that `fit` did not get.
        y
            The values, as in `cdf_limits`.
        ids
            The episode of each row, as in `fit`.

        Returns
        -------
        left, right
            As `cdf_limits`; NaN if there was only one training episode.
        """
        rows = self._query_rows(X)
        without, fold, keys = self._learned()
        own = fold[episodes_of(keys, ids, rows.shape[0])]
        values, flat = check_values(y, rows.shape[0])
        left, right = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
        for k, ranks in enumerate(without):
            here = np.flatnonzero(own == k)
            left[here], right[here] = self._limits_by(ranks, (k, k + 1), rows[here], values[here])
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        def fill(a: int, b: int) -> None:
            knots = self._knots(self._all, rows[a:b])
            quantiles_of_knots(self.ranks_, rows[a:b], knots, (levels, strictly), found[a:b])

        run_blocks(fill, rows.shape[0], block=_BLOCK)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's predicted distribution.

        A millionth of the probability lies in wide tails; the mean leaves it out.
        """
        rows = self._query_rows(X)
        values, atoms, tail = self.ranks_.support
        starts = np.concatenate(([tail[0]], values[:-1]))
        middles = np.where(atoms, values, 0.5 * starts + 0.5 * values)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            masses = np.empty((b - a, values.size + 1))
            masses_of_knots(self.ranks_, rows[a:b], self._knots(self._all, rows[a:b]), masses)
            means[a:b] = (np.diff(masses, axis=1) * middles).sum(axis=1)

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return means

    def live(self) -> LiveNetwork:
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
        self._check_fitted()
        return LiveNetwork(self)

    @property
    def _all(self) -> tuple[int, int]:
        """All networks, which answer together for new rows: from the first to behind the last."""
        width = self.networks_.second.size // self.networks_.first_bias.size
        return 0, self.networks_.first_bias.size // width

    def _knots(self, which: tuple[int, int], rows: FloatArray) -> FloatArray:
        """(rows, levels): the quantiles of each row's rank, as log odds, by some networks."""
        odds = self.ranks_.odds
        knots = np.empty((rows.shape[0], odds.size))
        knots_of_rows(self.networks_, odds, which, rows, knots)
        return knots

    def _limits_by(
        self,
        ranks: RankedOutcomes,
        which: tuple[int, int],
        rows: FloatArray,
        values: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        left, right = np.empty(values.shape), np.empty(values.shape)

        def fill(a: int, b: int) -> None:
            knots = self._knots(which, rows[a:b])
            limits_of_knots(ranks, rows[a:b], knots, values[a:b], (left[a:b], right[a:b]))

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return left, right

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        return networks_to_arrays(self.networks_) | ranks_to_arrays(self.ranks_)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned.

        It raises a `ModelFileError` if the arrays are damaged.
        """
        model = cls()
        model._hold(arrays)
        return model

    def _hold(self, arrays: Mapping[str, AnyArray]) -> None:
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "networks_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self._hold(self.to_arrays())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ranks_")


class LiveNetwork:
    """A network that answers at every step of a run, for several threads at once."""

    __slots__ = ("_all", "_model")

    takes_threads: ClassVar[bool] = True

    def __init__(self, model: QuantileNetwork) -> None:
        self._model, self._all = model, model._all

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``."""
        knots = self._model._knots(self._all, X)
        limits_of_knots(self._model.ranks_, X, knots, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveNetwork, (self._model,)
