"""Small monitors of every kind, as headers and arrays to be forged."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from ontarget import Episodes, Target
from ontarget._typing import AnyArray
from ontarget.episodes.history import History
from ontarget.fitted import choices
from ontarget.fitting import _spacing
from ontarget.modelfile.container import Container
from ontarget.models import (
    DistributionRegression,
    Marginal,
    QuantileForest,
    QuantileNetwork,
    StackedForest,
)
from ontarget.models.forest._asking_kernel import LOW31, LOW32
from ontarget.models.network import _fitting
from ontarget.models.network._training import Weights
from ontarget.monitor.monitor import GoalMonitor

HORIZON = 5
Contents = tuple[dict[str, Any], dict[str, dict[str, AnyArray]]]

FOREST = QuantileForest(n_trees=4, min_leaf=4)
STACKED = StackedForest(n_trees=3, min_leaf=3)
REGRESSION = DistributionRegression()
NETWORK = QuantileNetwork(4, n_folds=2)
# Per monitor: its model, its parameters, and what its episodes are like.
KINDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "forest": (FOREST, {"steps_per_model": 2}, {"kind": "number"}),
    "forest-by-step": (FOREST, {"steps_per_model": 1}, {"kind": "category", "missing": True}),
    "forest-max": (FOREST, {"steps_per_model": 3}, {"behavior": "max", "ragged": True}),
    "stacked": (STACKED, {"steps_per_model": 3}, {"kind": "category"}),
    "stacked-plain": (STACKED, {"steps_per_model": 5}, {"atoms": False, "missing": True}),
    "forest-mean": (FOREST, {"steps_per_model": 5}, {"behavior": "mean", "atoms": False}),
    "regression": (REGRESSION, {"steps_per_model": 2}, {"kind": "category", "missing": True}),
    "regression-plain": (REGRESSION, {"steps_per_model": 5}, {"atoms": False, "ragged": True}),
    "network": (NETWORK, {}, {"kind": "category", "missing": True}),
    "network-plain": (NETWORK, {}, {"atoms": False, "ragged": True}),
    "marginal": (Marginal(), {"reward_bounds": (-3.0, 3.0)}, {"ragged": True}),
    "groups": (FOREST, {"steps_per_model": 2, "group": "group"}, {"groups": 2, "ragged": True}),
    "discounted": (Marginal(), {"window": 1, "steps_per_model": 2}, {"behavior": "discounted:0.9"}),
    "rehearsed": (FOREST, {"steps_per_model": 2, "group": "group"}, {"groups": 2, "ragged": True}),
    "rehearsed-max": (Marginal(), {}, {"behavior": "max"}),
    "recalling": (FOREST, {"history": 2}, {"kind": "category", "missing": True, "ragged": True}),
    "aimed": (FOREST, {"steps_per_model": 5}, {"ragged": True}),
    "several": (FOREST, {"steps_per_model": 5}, {"behavior": {"a": "sum", "b": "max"}}),
    "paper": (FOREST, {"preset": "paper"}, {"named": True, "behavior": "min"}),
    "stopped": (Marginal(), {}, {"named": True, "ragged": True, "stopped": True}),
    "recalibrated": (FOREST, {"steps_per_model": 5}, {"named": True, "groups": 2}),
    "told": (Marginal(), {"history": 1}, {"behavior": "column:fuel", "ragged": True}),
    "counted": (FOREST, {"steps_per_model": 2}, {"kind": "category", "missing": True}),
    "guided": (FOREST, {"history": 0}, {"n": 130, "kind": "category", "missing": True}),
}


def episodes(
    n: int = 100,
    *,
    kind: str = "number",
    behavior: str | dict[str, str] = "sum",
    ragged: bool = False,
    groups: int = 0,
    atoms: bool = True,
    missing: bool = False,
    named: bool = False,
    stopped: bool = False,
) -> Episodes:
    """Short runs whose second feature is a number or a category of three.

    Those that are ``named`` have texts for ids, and of those ``stopped`` some were cut off.
    """
    rng = np.random.default_rng(7)
    lengths = rng.integers(2, HORIZON + 1, size=n) if ragged else np.full(n, HORIZON)
    states, rewards = [], []
    for length in lengths.tolist():
        state = rng.normal(size=(length, 2))
        if kind == "category":
            state[:, 1] = rng.integers(0, 3, size=length)
        if missing:
            state[rng.random(length) < 0.1, 0] = np.nan
        gain = np.nan_to_num(state[:, 0]) + rng.normal(size=length)
        states.append(state)
        rewards.append(np.clip(np.rint(gain * 2) / 2 if atoms else gain, -3.0, 3.0))
    told = isinstance(behavior, str) and behavior.startswith("column:")
    return Episodes.from_arrays(
        states,
        None if told else rewards,
        behavior_values=rewards if told else None,
        ids=[f"run {i}" for i in range(n)] if named else None,
        truncated=rng.random(n) < 0.1 if stopped else None,
        censored="worst-case" if stopped else "refuse",
        groups=None if not groups else (np.arange(n) % groups).astype(str),
        behavior=behavior,
        horizon=HORIZON,
        categorical=["x1"] if kind == "category" else [],
    )


def monitor_of(name: str) -> GoalMonitor:
    """The fitted monitor of this kind."""
    model, parameters, runs = KINDS[name]
    monitor = GoalMonitor(model, min_calibration=5, **parameters)
    with mock.patch.object(_fitting, "train", drawn_weights):
        if name.startswith("rehearsed"):  # without assure episodes
            return monitor.fit(split=episodes(40, **runs).split(assure=0), progress=False)
        found = episodes(**runs)
        if name == "counted":
            counts = ((1, 0), (1, 2))
            found = found.with_history(History(changes=(0,), means=(0,), counts=counts))
        if name == "guided":  # as monitors of long runs are, where the guide clearly helps
            least = {"history": math.inf, "guide": -math.inf}
            with (
                mock.patch.object(_spacing, "_LONG", 1),
                mock.patch.object(choices, "_CLEARLY", least),
            ):
                return monitor.fit(found, progress=False)
        if name == "aimed":  # each run with a target of its own, or none
            targets = [Target.at_least(-1.0), Target(-2.0, 2.0) | Target.at_least(4.0), None, None]
            found = found.aimed(targets * (len(found) // len(targets)))
        if name == "recalibrated":
            monitor.fit(found.take(range(60)), progress=False)
            return monitor.recalibrate(found.take(range(60, 100)), renew_p=True)
        return monitor.fit(found, progress=False)


def drawn_weights(examples: Any, rules: Any, reached: Any) -> Weights:
    """Weights as training would give them, drawn at random: no test of a file needs PyTorch."""
    rng, n = np.random.default_rng(rules.seed), int(examples.fold.max()) + 1
    n_inputs, width = examples.inputs.shape[1], rules.width
    shapes = [(n, n_inputs, width), (n, width), (n, width, width), (n, width)]
    shapes.append((n, width + n_inputs + 1, rules.odds.size))
    return Weights(*(rng.normal(scale=0.3, size=s).astype(np.float32) for s in shapes))


def contents_of(path: Path) -> Contents:
    """Header and sections of a model file, in memory that may be changed."""
    container = Container.open(path)
    sections = {
        name: {array: np.array(values) for array, values in container.section(name).items()}
        for name in container.sections
    }
    return dict(container.header), sections


def blended(contents: Contents) -> Contents:
    """The same monitor with a law that mixes two blocks at every step."""
    header, sections = contents
    horizon, last = header["horizon"], len(header["blocks"]) - 1
    law = {
        "starts": np.arange(0, 2 * horizon + 1, 2, dtype=np.int64),
        "blocks": np.tile(np.array([0, last], dtype=np.int64), horizon),
        "weights": np.tile([0.25, 0.75], horizon),
    }
    return header, {**sections, "law": law}


def weighted(contents: Contents) -> Contents:
    """The same forests with a share per entry, as training rows of different weight leave them."""
    header, sections = contents
    found = dict(sections)
    for name in (name for name in sections if name.startswith("block")):
        arrays = sections[name]
        leaves = arrays["nodes"][arrays["nodes"] < 0]
        shares = np.empty(arrays["entries"].size)
        for start, size in zip(leaves & LOW32, (leaves >> 32) & LOW31, strict=True):
            shares[start : start + size] = np.arange(1, size + 1) / size
        found[name] = {**arrays, "shares": shares}
    return header, found


def write_all(folder: Path) -> None:
    """Fit every kind and write it into the folder, with a file of 0.2, which has more arrays."""
    for name in KINDS:
        monitor_of(name).save(folder / f"{name}.ontarget")
    kept = Path(__file__).parents[1] / "modelfile" / "kept" / "0.2.0" / "stacked.ontarget.gz"
    (folder / "stacked-of-0.2.ontarget").write_bytes(gzip.decompress(kept.read_bytes()))


def read_all(folder: Path) -> dict[str, Contents]:
    """Every kind that `write_all` wrote, one whose law is a mixture, and one with weights."""
    found = {path.stem: contents_of(path) for path in sorted(folder.glob("*.ontarget"))}
    forest = found["forest"]
    return {**found, "blended": blended(forest), "weighted": weighted(forest)}
