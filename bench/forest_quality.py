"""How good our forest's predicted distributions are, compared with the library quantile-forest.

The measure is CRPS, the distance of a predicted distribution from the outcome; lower is better.
Every forest has 100 trees. Its min_leaf (fewest rows in a leaf) is tuned on a quarter of the
training rows. The distributions of quantile-forest are read from the leaves of its trees.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from quantile_forest import RandomForestQuantileRegressor
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

from ontarget.models import QuantileForest
from yardstick.crps import crps
from yardstick.figures import keep

TREES, REPEATS, MOST_TEST_ROWS = 100, 2, 800
LEAVES = (2, 5, 10, 20, 40)


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def cut(X: np.ndarray, y: np.ndarray, n_train: int, seed: int) -> Data:
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n_train], order[n_train : n_train + MOST_TEST_ROWS]
    return Data(X[train], y[train], X[test], y[test])


def heteroskedastic(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows X and responses Y = mean + spread · N(0, 1).

    Mean and spread depend on different features.
    """
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 6))
    return X, np.sin(6 * X[:, 0]) + spread(X) * rng.normal(size=n_rows)


def spread(X: np.ndarray) -> np.ndarray:
    return (0.2 + 1.5 * X[:, 1] ** 2) * (1.0 + (X[:, 2] > 0.5))


def sets(seed: int) -> Iterator[tuple[str, Data]]:
    yield "diabetes", cut(*load_diabetes(return_X_y=True), 300, seed)
    yield "Friedman 1", cut(*make_friedman1(3300, noise=1.0, random_state=seed), 2500, seed)
    yield "Friedman 2", cut(*make_friedman2(3300, noise=125.0, random_state=seed), 2500, seed)
    yield "Friedman 3", cut(*make_friedman3(3300, noise=0.1, random_state=seed), 2500, seed)
    yield "heteroskedastic", cut(*heteroskedastic(3300, seed), 2500, seed)
    yield from domain_sets(seed)


def domain_sets(seed: int) -> Iterator[tuple[str, Data]]:
    from ontarget._grid import grid_of
    from ontarget.domains import simulate

    for name, steps in (("tamarisk", (0, 5, 25)), ("skirmish", (0, 16, 24))):
        runs = simulate(name, 3300, seed=seed)
        for t in steps:
            step = runs.at(t, grid=grid_of(runs.outcomes))
            yield f"{name}, t = {t}", cut(step.states, step.remaining, 2500, seed)


def score(forest: QuantileForest | Peer, X: np.ndarray, y: np.ndarray) -> float:
    """The mean CRPS of the forest's predicted distributions.

    CRPS is the distance of a predicted distribution from the outcome; lower is better. The
    outermost millionth of each tail is left out.
    """
    arrays = forest.to_arrays()
    values, atoms, tail = arrays["support"], arrays["atoms"], arrays["tail"]
    right = np.cumsum(forest.leaf_weights(X).toarray(), axis=1)
    before = np.concatenate([np.zeros((len(y), 1)), right[:, :-1]], axis=1)
    left = np.where(atoms, before, right)
    if tail[2] > 0.0 and tail[0] < values[0]:  # the gap before the first value
        values = np.concatenate([tail[:1], values])
        left, right = (np.pad(part, ((0, 0), (1, 0))) for part in (left, right))
    return float(crps(values, np.minimum(left, 1.0), np.minimum(right, 1.0), y).mean())


class Peer:
    """A forest of quantile-forest, with what `score` asks a `QuantileForest` for."""

    def __init__(self, X: np.ndarray, y: np.ndarray, min_leaf: int, n_trees: int) -> None:
        self.forest = RandomForestQuantileRegressor(
            n_trees, min_samples_leaf=min_leaf, max_samples_leaf=None, random_state=0, n_jobs=2
        ).fit(X, y)
        self.values, ranks = np.unique(y, return_inverse=True)
        self.leaves = []  # of each tree: the share of each outcome in each of its nodes
        for tree, drawn in zip(
            self.forest.estimators_, self.forest.estimators_samples_, strict=True
        ):
            node = tree.apply(X)[drawn]
            share = 1.0 / np.bincount(node)[node] / n_trees
            shape = (tree.tree_.node_count, self.values.size)
            self.leaves.append(csr_array((share, (node, ranks[drawn])), shape=shape))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its outcomes, of which none is spread over the gap before it."""
        return {"support": self.values, "atoms": np.array(True), "tail": np.zeros(4)}

    def leaf_weights(self, X: np.ndarray) -> csr_array:
        trees = zip(self.forest.estimators_, self.leaves, strict=True)
        return sum(leaves[tree.apply(X)] for tree, leaves in trees)


def ours(**options: object) -> Callable[..., QuantileForest]:
    def fit(X: np.ndarray, y: np.ndarray, min_leaf: int, n_trees: int) -> QuantileForest:
        return QuantileForest(n_trees, min_leaf, **options).fit(X, y)  # type: ignore[arg-type]

    return fit


FORESTS: dict[str, Callable[..., QuantileForest | Peer]] = {
    "quantile-forest": Peer,
    "default": ours(),
    "variance": ours(split="variance"),
    "all features": ours(max_features=1.0),
    "255 bins": ours(max_bins=255),
    "no smoothing": ours(smooth=False),
}


def tuned(fit: Callable[..., QuantileForest | Peer], data: Data) -> tuple[float, int]:
    n_fit = len(data.y) * 3 // 4
    held = data.X[n_fit:], data.y[n_fit:]
    losses = {
        leaf: score(fit(data.X[:n_fit], data.y[:n_fit], leaf, TREES // 2), *held) for leaf in LEAVES
    }
    leaf = min(losses, key=losses.__getitem__)
    return score(fit(data.X, data.y, leaf, TREES), data.X_test, data.y_test), leaf


def main() -> None:
    found: dict[str, dict[str, list[float]]] = {}
    leaves: dict[str, dict[str, list[int]]] = {}
    for seed in range(REPEATS):
        for name, data in sets(seed):
            for forest, fit in FORESTS.items():
                loss, leaf = tuned(fit, data)
                found.setdefault(name, {}).setdefault(forest, []).append(loss)
                leaves.setdefault(name, {}).setdefault(forest, []).append(leaf)
    others = list(FORESTS)[1:]
    print(f"| data | quantile-forest CRPS (min_leaf) | {' | '.join(others)} |")
    print("|---" * (2 + len(others)) + "|")
    ratios: dict[str, list[float]] = {forest: [] for forest in others}
    for name, losses in found.items():
        base = float(np.mean(losses["quantile-forest"]))
        cells = []
        for forest in others:
            ratio = float(np.mean(losses[forest])) / base
            ratios[forest].append(ratio)
            cells.append(f"{ratio:.4f} ({', '.join(map(str, leaves[name][forest]))})")
        tuned_leaves = ", ".join(map(str, leaves[name]["quantile-forest"]))
        print(f"| {name} | {base:.4g} ({tuned_leaves}) | {' | '.join(cells)} |")
    means = {forest: float(np.exp(np.mean(np.log(ratios[forest])))) for forest in others}
    print(f"| geometric mean | 1 | {' | '.join(f'{mean:.4f}' for mean in means.values())} |")
    for forest, mean in means.items():
        keep(f"CRPS of our forest, {forest}", mean, "×", beside="quantile-forest")


if __name__ == "__main__":
    # quantile-forest spreads its work in a way that scikit-learn warns about, once per fit.
    warnings.filterwarnings("ignore", message=".*sklearn.utils.parallel.delayed.*")
    main()
