"""`QuantileNetwork`: the implicit quantile network as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ontarget._arguments import seed_parts, share, whole_number
from ontarget._threads import threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.models.base import check_categorical
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.network._fitting import NetworkPlan, fit_networks
from ontarget.models.network._network_kernel import Networks, knots_of_rows
from ontarget.models.network._store import LARGEST_WEIGHT, networks_from_arrays, networks_to_arrays
from ontarget.models.ranked._estimator import RankedEstimator
from ontarget.models.ranked._law_kernel import RankedOutcomes
from ontarget.models.ranked._ranks import check_time, ranks_from_arrays, ranks_to_arrays

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

    networks_: Networks

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
        without = tuple((one, (self.networks_, k, k + 1)) for k, one in enumerate(fitted.without))
        self._learned_ = without, fitted.fold, rows.keys
        return self

    @property
    def _model(self) -> tuple[Networks, int, int]:
        width = self.networks_.second.size // self.networks_.first_bias.size
        return self.networks_, 0, self.networks_.first_bias.size // width

    @staticmethod
    def _knots(
        model: tuple[Networks, int, int], ranks: RankedOutcomes, rows: FloatArray
    ) -> FloatArray:
        networks, begin, stop = model
        knots = np.empty((rows.shape[0], ranks.odds.size))
        knots_of_rows(networks, ranks.odds, (begin, stop), rows, knots)
        return knots

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
