"""`LinearQuantiles`: linear quantile regression at many levels, as a whole distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import InputError
from ontarget.models._knots import KnotEstimator, even_levels, outcome_floor
from ontarget.models._knots_kernel import linear_knots
from ontarget.models._pinball_kernel import pinball_fit
from ontarget.models._stored import flat_array, require, stored_width
from ontarget.models.base import check_categorical

# In units of the tails' least scale, so 1e-9 of the outcomes' spread: what the solver can tell.
_RESOLUTION = 1e-6


class LinearQuantiles(KnotEstimator):
    """A conditional distribution whose quantiles are linear in the features.

    Parameters
    ----------
    n_levels
        The number n of quantiles that are fitted, at the levels 1/(n + 1) … n/(n + 1).

    Attributes
    ----------
    levels_, coef_, intercept_
        The levels, and for each level the coefficients and the intercept. There is one coefficient
        per numeric feature, and then one per category of each categorical feature.
    gaps_
        The relative duality gap of each level's fit: an upper limit on how far its pinball loss is
        above the minimum.

    Notes
    -----
    Each quantile minimises its pinball loss, solved to a relative duality gap of 1e-10. A row's
    quantiles are then put in ascending order, so that they never cross. The CDF is linear between
    two quantiles and exponential beyond the outermost ones. It has an atom (a value with positive
    probability) only where quantiles of several levels coincide at a row, to within 1e-9 of the
    outcomes' spread. The probability of any other atom is spread out over values nearby. So if a
    target begins or ends at an atom, the bounds on its probability are wide; a forest is better for
    such outcomes.

    Categorical columns become one indicator per category. A category that was not in training is an
    error, and so is a missing feature.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.arange(10.0), 11).reshape(-1, 1)
    >>> spread = np.tile(np.arange(-5.0, 6.0), 10)
    >>> model = LinearQuantiles(n_levels=9).fit(X, 2.0 * X[:, 0] + spread)
    >>> print(model.quantile([[10.0]], [0.2, 0.5, 0.8]).round(6))
    [[17. 20. 23.]]
    """

    kind: ClassVar[str] = "linear"

    def __init__(self, n_levels: int = 49) -> None:
        self.n_levels = n_levels

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
        """Fit the model to these rows. ``steps`` has no effect: pass the step as a feature."""
        levels = even_levels(self.n_levels)
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        _refuse_missing(rows.X)
        self.categories_ = {
            column: read_only(np.unique(rows.X[:, column]))
            for column in check_categorical(categorical, rows.X.shape[1])
        }
        design = self._design(rows.X)
        weight = np.ones(rows.y.size) if rows.weight is None else rows.weight / rows.weight.mean()
        basis, back, centre = _orthonormal(design, weight)
        weighted, outcome = np.ascontiguousarray(basis * weight[:, None]), rows.y * weight
        start = np.linalg.lstsq(weighted, outcome, rcond=None)[0]
        fitted = np.empty((levels.size, basis.shape[1] + 1))

        def fit_levels(a: int, b: int) -> None:
            for j in range(a, b):
                fitted[j] = pinball_fit(weighted, outcome, float(levels[j]), start)

        run_blocks(fit_levels, levels.size, block=1)
        coefficients = fitted[:, :-1] @ back
        self.coef_: FloatArray = read_only(coefficients[:, 1:])
        self.intercept_: FloatArray = read_only(coefficients[:, 0] - self.coef_ @ centre)
        self.gaps_: FloatArray = read_only(fitted[:, -1])
        self.floor_ = outcome_floor(rows)
        self.levels_ = levels
        return self

    def _knots(self, rows: FloatArray) -> FloatArray:
        _refuse_missing(rows)
        return linear_knots(
            self._design(rows), self.coef_, self.intercept_, _RESOLUTION * self.floor_
        )

    def _design(self, rows: FloatArray) -> FloatArray:
        """The columns that the regression reads: (rows, columns).

        Numeric features come first, then one 0/1 column per category of each categorical feature.
        """
        if not self.categories_:
            return rows
        plain = [k for k in range(rows.shape[1]) if k not in self.categories_]
        parts = [rows[:, plain]]
        for column, categories in self.categories_.items():
            hit = rows[:, [column]] == categories[None, :]
            unseen = ~hit.any(axis=1)
            if unseen.any():
                row = int(np.argmax(unseen))
                raise InputError(
                    f"column {column} is categorical and needs a category from training, got "
                    f"{rows[row, column]:g} in row {row}; use a forest, which treats an unknown "
                    f"category as missing"
                )
            parts.append(hit.astype(np.float64))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        sizes = [[column, values.size] for column, values in self.categories_.items()]
        codes = [np.empty(0), *self.categories_.values()]
        return {
            "levels": self.levels_,
            "coef": read_only(self.coef_.ravel()),
            "intercept": self.intercept_,
            "floor": read_only(np.array([self.floor_])),
            "n_features": read_only(np.array([self.n_features_in_], dtype=np.int64)),
            "category_sizes": read_only(np.array(sizes, dtype=np.int64).ravel()),
            "categories": read_only(np.concatenate(codes)),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned."""
        levels, coef, intercept, floor, codes = (
            flat_array(arrays, name, np.float64)
            for name in ("levels", "coef", "intercept", "floor", "categories")
        )
        finite = all(np.isfinite(a).all() for a in (levels, coef, intercept, codes))
        require(finite, "a linear model needs finite numbers in all its arrays")
        rising = levels.size >= 3 and levels[0] > 0.0 and levels[-1] < 1.0
        rising = rising and bool((levels[1:] > levels[:-1]).all())
        require(rising, "levels needs at least three rising numbers between 0 and 1")
        require(intercept.shape == levels.shape, "intercept needs one number per level")
        require(floor.size == 1 and 0.0 < floor[0] < np.inf, "floor needs one positive number")
        model = cls(n_levels=int(levels.size))
        model.n_features_in_ = n_features = stored_width(arrays)
        sizes = _category_sizes(arrays, n_features, codes.size)
        width = n_features - len(sizes) + codes.size
        require(
            coef.size == levels.size * width,
            "coef needs one number per level and column that the regression reads",
        )
        ends = np.cumsum([0, *sizes.values()])
        model.categories_ = {
            column: read_only(codes[ends[k] : ends[k + 1]]) for k, column in enumerate(sizes)
        }
        model.levels_, model.intercept_ = levels, intercept
        model.coef_ = read_only(coef.reshape(levels.size, width))
        model.floor_ = float(floor[0])
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


def _orthonormal(
    design: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """An orthogonal basis for the columns of a design matrix, and how to convert coefficients back.

    Returns the basis (a column of ones, then orthogonal columns of full rank), a matrix ``back``,
    and the mean ``centre`` of each column of the design. For any b, ``basis @ b`` equals
    ``[1, design − centre] @ (b @ back)``. Columns that are linear combinations of others share
    their effect.
    """
    centre = np.average(design, axis=0, weights=weight)
    spread = np.sqrt(np.average((design - centre) ** 2, axis=0, weights=weight))
    unit = np.where(spread > 1e-12 * (1.0 + np.abs(centre)), spread, np.inf)
    left, sizes, right = np.linalg.svd((design - centre) / unit, full_matrices=False)
    rank = int(np.count_nonzero(sizes > 1e-10 * max(1.0, sizes.max(initial=0.0))))
    n = design.shape[0]
    basis = np.concatenate((np.ones((n, 1)), left[:, :rank] * np.sqrt(n)), axis=1)
    back = np.zeros((rank + 1, design.shape[1] + 1))
    back[0, 0] = 1.0
    back[1:, 1:] = right[:rank] / sizes[:rank, None] / unit * np.sqrt(n)
    return np.ascontiguousarray(basis), back, centre


def _category_sizes(
    arrays: Mapping[str, AnyArray], n_features: int, n_codes: int
) -> dict[int, int]:
    """How many categories each categorical column has, from the stored array ``category_sizes``."""
    pairs = flat_array(arrays, "category_sizes", np.int64)
    columns, sizes = pairs[0::2].tolist(), pairs[1::2].tolist()  # whole numbers that never wrap
    paired = len(columns) == len(sizes)
    require(paired, "category_sizes needs pairs of a column and its number of categories")
    once = len(set(columns)) == len(columns) and columns == sorted(columns)
    inside = not columns or (columns[0] >= 0 and columns[-1] < n_features)
    require(once and inside, f"category_sizes needs columns from 0 to {n_features - 1}, ascending")
    whole = min(sizes, default=1) >= 1 and sum(sizes) == n_codes
    require(whole, f"category_sizes needs numbers of categories that sum to {n_codes}")
    return dict(zip(columns, sizes, strict=True))


def _refuse_missing(rows: FloatArray) -> None:
    if np.isnan(rows).any():
        row, column = np.argwhere(np.isnan(rows))[0]
        raise InputError(
            f"a linear model needs every feature, got NaN (missing) in row {row}, column {column}; "
            "fill in a value, or use a forest, which accepts missing features"
        )
