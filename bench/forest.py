"""Our quantile forest (trees that predict distributions), timed beside two other libraries.

They are quantile-forest and scikit-learn. Ratios are of elapsed time with the same number of
threads; ratios in brackets are of processor time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from yardstick.figures import keep

ROWS, FEATURES, TREES, MIN_LEAF = 2_500, 10, 100, 5


class Seconds(NamedTuple):
    elapsed: float
    processor: float

    def over(self, n: int) -> Seconds:
        return Seconds(self.elapsed / n, self.processor / n)

    def ratio(self, ours: Seconds) -> str:
        return f"{self.elapsed / ours.elapsed:.1f}x ({self.processor / ours.processor:.1f}x)"


def best(task: Callable[[], object], repeats: int = 5) -> Seconds:
    """The elapsed time and the processor time of the fastest of several runs."""
    elapsed, processor = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        task()
        elapsed.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    return Seconds(min(elapsed), min(processor))


def friedman(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, FEATURES))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, signal + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)


def line(what: str, ours: str, ratio: str = "", needed: str = "") -> None:
    print(f"{what:<43} {ours:>9} {ratio:>24} {needed:>17}")
    if ours[:1].isdigit():
        value, unit = ours.replace(",", "").replace("us", "µs").split()
        keep(what, float(value), unit, asked=needed, beside=ratio and f"quantile-forest: {ratio}")


def compare(n_threads: int) -> None:
    from quantile_forest import RandomForestQuantileRegressor
    from sklearn.ensemble import RandomForestRegressor

    from ontarget.models import QuantileForest

    X, y = friedman(ROWS)
    queries, y_there = friedman(5_000, seed=1)
    targets = np.column_stack([y_there - 2, y_there + 2])
    peer = RandomForestQuantileRegressor(
        TREES, min_samples_leaf=MIN_LEAF, n_jobs=n_threads, max_samples_leaf=None, random_state=0
    )
    plain = RandomForestRegressor(
        TREES, min_samples_leaf=MIN_LEAF, n_jobs=n_threads, random_state=0
    )
    ours = QuantileForest(TREES, MIN_LEAF)
    same = QuantileForest(TREES, MIN_LEAF, 1.0, split="variance")
    coarse = QuantileForest(TREES, MIN_LEAF, 1.0, split="variance", max_bins=255)
    start = time.perf_counter()
    ours.fit(X, y).cdf(queries[:1], 0.0)
    line("first fit and question (compiles or loads)", f"{time.perf_counter() - start:.2f} s")

    t_peer, t_plain = best(lambda: peer.fit(X, y)), best(lambda: plain.fit(X, y))
    line("fit, scikit-learn's forest", f"{t_plain.elapsed * 1e3:.0f} ms", t_peer.ratio(t_plain))
    for name, forest in (
        ("fit, our defaults", ours),
        ("fit, all features, variance", same),
        ("fit, the same with 255 bins", coarse),
    ):
        t = best(lambda forest=forest: forest.fit(X, y))
        line(name, f"{t.elapsed * 1e3:.0f} ms", t_peer.ratio(t), ">= 6x")

    def ask_peer(rows: np.ndarray, ys: np.ndarray, **mode: bool) -> None:
        for k in range(ys.shape[1]):
            peer.quantile_ranks(rows, ys[:, k], kind="weak", **mode)

    modes = [{"aggregate_leaves_first": False}, {"aggregate_leaves_first": True}]
    t_peer = min(best(lambda m=m: ask_peer(queries, targets, **m), 3) for m in modes)  # its fastest
    t = best(lambda: ours.cdf(queries, targets))
    line("CDF at 2 targets, 5,000 rows", f"{t.elapsed * 1e3:.1f} ms", t_peer.ratio(t), ">= 15x")
    t_quantile = best(lambda: ours.quantile(queries, [0.1, 0.9]))
    t_peer_quantile = best(lambda: peer.predict(queries, [0.1, 0.9]), 3)
    found_in = f"{t_quantile.elapsed * 1e3:.1f} ms"
    line("2 quantiles, 5,000 rows", found_in, t_peer_quantile.ratio(t_quantile))
    one_row(ours, peer, ask_peer, (queries, targets))
    size = sum(part.nbytes for part in ours.to_arrays().values())
    pickled = len(pickle.dumps(peer))
    line(
        "store", f"{size / 1e6:.2f} MB", f"{pickled / size:.1f}x smaller pickle", "<= 1.2 MB, >= 8x"
    )


def one_row(ours: object, peer: object, ask_peer: Callable[..., None], data: tuple) -> None:
    queries, targets = data
    n = 2_000
    rows = [queries[i : i + 1] for i in range(n)]
    ys = [targets[i : i + 1] for i in range(n)]
    live = ours.live()  # type: ignore[attr-defined]
    left, right = np.empty((1, 2)), np.empty((1, 2))
    live.limits(rows[0], ys[0], left, right)

    def public() -> None:
        for row, y in zip(rows, ys, strict=True):
            ours.cdf(row, y)  # type: ignore[attr-defined]

    def kernel() -> None:
        for row, y in zip(rows, ys, strict=True):
            live.limits(row, y, left, right)

    t_peer = min(
        best(lambda m=m: ask_peer(rows[0], ys[0], aggregate_leaves_first=m), 9)
        for m in (True, False)
    )
    for what, task, needed in (
        ("one row at 2 targets, cdf()", public, "<= 40 us, >= 200x"),
        ("one row at 2 targets, live", kernel, "<= 20 us"),
    ):
        t = best(task).over(n)
        line(what, f"{t.elapsed * 1e6:.1f} us", t_peer.ratio(t), needed)


def growth() -> None:
    from ontarget.models import QuantileForest

    print("\nHow it grows: 20 trees, min_leaf 15; cost is processor time / (rows trees log2 rows)")
    print("      rows    bins       fit  cost ns  query us      MB  peak MB")
    queries, y_there = friedman(2_000, seed=1)
    for n_rows in (1_000, 10_000, 100_000, 1_000_000):
        X, y = friedman(n_rows)
        for max_bins in (255, 65_535):
            forest = QuantileForest(20, max_bins=max_bins)
            t = best(lambda f=forest, X=X, y=y: f.fit(X, y), 3 if n_rows <= 10_000 else 1)
            asked = best(lambda f=forest: f.cdf(queries, y_there)).over(len(queries))
            size = sum(part.nbytes for part in forest.to_arrays().values()) / 1e6
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            cost = t.processor / (n_rows * 20 * np.log2(n_rows)) * 1e9
            print(
                f"{n_rows:>10,} {max_bins:>7,} {t.elapsed:>7.2f} s {cost:>8.1f} "
                f"{asked.processor * 1e6:>9.1f} {size:>7.1f} {peak:>8.0f}"
            )


def main() -> None:
    n_threads = len(os.sched_getaffinity(0))
    os.environ["ONTARGET_THREADS"] = str(n_threads)
    print(f"{ROWS} rows x {FEATURES} features, {TREES} trees, min_leaf {MIN_LEAF}")
    print(f"{n_threads} threads each")
    line("", "ours", "ratio", "required")
    compare(n_threads)
    if "--quick" not in sys.argv:
        growth()


if __name__ == "__main__":
    # quantile-forest spreads its work in a way that scikit-learn warns about, once per fit.
    warnings.filterwarnings("ignore", message=".*sklearn.utils.parallel.delayed.*")
    main()
