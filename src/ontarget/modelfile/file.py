"""The model file: a monitor's contents in a container, and what can be said of it unopened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, KeyArray
from ontarget.episodes import Behavior, Episodes, Schema, behavior_of
from ontarget.episodes._store import Roles, Store
from ontarget.errors import ModelFileError, OntargetError
from ontarget.fitted.blocks import Block, LawTable
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitted.ranks import RankTable
from ontarget.modelfile.container import Container, container_bytes, write_container
from ontarget.models._entry import model_arrays
from ontarget.models.registry import model_of_kind

__all__ = ["fitted_bytes", "fitted_from_bytes", "inspect_file", "load", "save"]

_PARTS = ("train", "calibrate", "assure")


def save(fitted: Fitted, path: Path) -> None:
    """Write the model file; it appears whole or not at all."""
    write_container(path, _header(fitted), _sections(fitted))


def load(path: Path) -> Fitted:
    """The monitor in a model file, memory-mapped; models are checked when first asked for."""
    return _opened(Container.open(path))


def fitted_bytes(fitted: Fitted) -> bytes:
    """The bytes that `save` would write."""
    return container_bytes(_header(fitted), _sections(fitted))


def fitted_from_bytes(data: bytes) -> Fitted:
    """The monitor that gave these bytes."""
    return _opened(Container.from_bytes(data))


def inspect_file(path: Path) -> dict[str, Any]:
    """What a model file says of itself, every section verified."""
    container = Container.open(path)
    container.verify()
    size = path.stat().st_size
    header = dict(container.header)
    return {**header, "bytes": size, "bytes_per_step": size / header["horizon"]}


class FiledModels:
    """The fitted models of a file, each opened and checked when first asked for.

    Parameters
    ----------
    container
        The open file.
    kinds
        The kind of each block's model, None where no episode trained one.
    """

    def __init__(self, container: Container, kinds: tuple[str | None, ...]) -> None:
        self._container = container
        self._kinds = kinds
        self._opened: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self._opened:
            self._opened[index] = self._open(index)
        return self._opened[index]

    def release(self) -> None:
        """Let the system take back what was read of the models until it is read again."""
        for index in self._opened:
            if self._kinds[index] is not None:
                self._container.release(_block_name(index))

    def _open(self, index: int) -> Any:
        kind = self._kinds[index]
        if kind is None:
            return None
        arrays = self._container.section(_block_name(index))
        try:
            return model_of_kind(kind).from_arrays(arrays)
        except ModelFileError:
            raise
        # Checksums guard against accidents; these are what a forged block may run into.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"block {index} does not hold a fitted model: {error}") from error


def _block_name(index: int) -> str:
    return f"block-{index:05d}"


def _sections(fitted: Fitted) -> dict[str, Mapping[str, AnyArray]]:
    models = [fitted.models[block.index] for block in fitted.blocks]
    law = fitted.law
    return {
        **{
            _block_name(index): model_arrays(model)
            for index, model in enumerate(models)
            if model is not None
        },
        "assure": _assure(fitted),
        "episodes": {"fingerprints": fitted.trained.fingerprints},
        "law": {"starts": law.starts, "blocks": law.blocks, "weights": law.weights},
        "ranks": fitted.ranks.to_arrays(),
    }


def _header(fitted: Fitted) -> dict[str, Any]:
    models = [fitted.models[block.index] for block in fitted.blocks]
    trained = fitted.trained
    return {
        "features": fitted.schema.to_json(),
        "behavior": fitted.behavior.spec,
        "horizon": fitted.horizon,
        "horizon_declared": fitted.horizon_declared,
        "grid": fitted.grid,
        "reward_bounds": [one if math.isfinite(one) else None for one in fitted.reward_bounds],
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in fitted.blocks],
        "kinds": [None if model is None else getattr(model, "kind", "") for model in models],
        "groups": None if fitted.groups is None else list(fitted.groups),
        "min_calibration": fitted.min_calibration,
        "may_miss": fitted.may_miss.tolist(),
        "parameters": dict(trained.parameters),
        "seed": trained.seed,
        "sizes": dict(trained.sizes),
        "columns": asdict(trained.roles),
    }


def _opened(container: Container) -> Fitted:
    header = container.header
    try:
        return _fitted(container, header)
    except OntargetError as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{container.name}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(
            f"{container.name}: its header does not describe a monitor ({error!r})"
        ) from error


def _fitted(container: Container, header: Mapping[str, Any]) -> Fitted:
    schema, behavior = Schema.from_json(header["features"]), behavior_of(header["behavior"])
    horizon, groups = _whole(header["horizon"]), header["groups"]
    blocks = tuple(Block(i, *map(_whole, ends)) for i, ends in enumerate(header["blocks"]))
    kinds = tuple(None if kind is None else str(kind) for kind in header["kinds"])
    if len(kinds) != len(blocks) or not blocks:
        raise ModelFileError("the header needs one kind per block")
    low, high = header["reward_bounds"]
    assure = container.section("assure")
    return Fitted(
        schema=schema,
        behavior=behavior,
        horizon=horizon,
        horizon_declared=bool(header["horizon_declared"]),
        grid=float(header["grid"]),
        reward_bounds=(
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
        ),
        blocks=blocks,
        law=_law(container.section("law"), horizon, len(blocks)),
        models=FiledModels(container, kinds),
        ranks=RankTable.from_arrays(
            container.section("ranks"), horizon, 1 if groups is None else len(groups)
        ),
        groups=None if groups is None else tuple(groups),
        min_calibration=_whole(header["min_calibration"]),
        may_miss=np.array([bool(flag) for flag in header["may_miss"]], dtype=np.bool_),
        assure=_episodes(assure, header, schema, behavior),
        excess=assure["excess"],
        trained=Trained(
            parameters=dict(header["parameters"]),
            seed=int(header["seed"]),
            sizes={name: _whole(header["sizes"][name]) for name in _PARTS},
            roles=Roles(**header["columns"]),
            fingerprints=_fingerprints(container.section("episodes"), header),
        ),
    )


def _fingerprints(arrays: Mapping[str, AnyArray], header: Mapping[str, Any]) -> KeyArray:
    found = arrays["fingerprints"]
    n = sum(_whole(header["sizes"][name]) for name in _PARTS)
    if found.shape != (n,) or found.dtype != np.uint64:
        raise ModelFileError(f"fingerprints need a word for each of the {n} episodes")
    return found


def _law(arrays: Mapping[str, AnyArray], horizon: int, n_blocks: int) -> LawTable:
    law = LawTable(arrays["starts"], arrays["blocks"], arrays["weights"])
    if law.horizon != horizon:
        raise ModelFileError(f"the law needs an entry for each of {horizon} steps")
    if not np.all((law.blocks >= 0) & (law.blocks < n_blocks)):
        raise ModelFileError(f"the law needs blocks from 0 to {n_blocks - 1}")
    return law


def _assure(fitted: Fitted) -> dict[str, AnyArray]:
    """The assure episodes: alarms are calibrated on them once the target is known (M8)."""
    arrays: dict[str, AnyArray] = {"excess": fitted.excess}
    if fitted.assure is not None:
        store = fitted.assure.compact()._store
        arrays |= {
            "states": store.states,
            "before": store.before,
            "outcomes": store.outcomes,
            "lengths": store.lengths,
            "groups": fitted.assure_groups,
        }
        if store.ahead is not None:
            arrays["ahead"] = store.ahead
    return arrays


def _episodes(
    arrays: Mapping[str, AnyArray], header: Mapping[str, Any], schema: Schema, behavior: Behavior
) -> Episodes | None:
    if "lengths" not in arrays:
        return None
    lengths, horizon = arrays["lengths"].astype(np.intp), _whole(header["horizon"])
    if lengths.min() < 1 or lengths.max() > horizon:
        raise ModelFileError(f"assure episodes need 1 to {horizon} steps")
    alive = [int(np.count_nonzero(lengths > t)) for t in range(int(lengths.max()))]
    rows, n = sum(alive), lengths.size
    shapes = {
        "states": (len(schema), rows),
        "before": (rows,),
        "outcomes": (n,),
        "groups": (n,),
        "excess": (n,),
    }
    if "ahead" in arrays:
        shapes["ahead"] = (rows,)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(f"assure array {name!r} needs shape {shape}")
    groups = header["groups"]
    store = Store(
        schema=schema,
        behavior=behavior,
        horizon=horizon,
        horizon_declared=bool(header["horizon_declared"]),
        roles=Roles(reward=None),
        ids=np.arange(n),
        groups=None if groups is None else np.array(groups)[arrays["groups"]],
        truncated=None,
        terminated=None,
        lengths=lengths,
        offsets=np.concatenate([[0], np.cumsum(alive)]).astype(np.intp),
        states=arrays["states"],
        rewards=None,
        before=arrays["before"],
        ahead=arrays.get("ahead"),
        outcomes=arrays["outcomes"],
    )
    return Episodes(store, grid=float(header["grid"]))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ModelFileError(f"the header needs a whole number, got {value!r}")
    return value
