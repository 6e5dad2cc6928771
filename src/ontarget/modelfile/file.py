"""The model file: a monitor's contents in a container, and what can be said of it unopened."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, KeyArray
from ontarget.episodes import Episodes, Schema, Translation, behavior_of
from ontarget.episodes._store import Roles, Store
from ontarget.errors import ModelFileError, OntargetError
from ontarget.fitted.blocks import Block
from ontarget.fitted.fitted import Calibrated, block_name
from ontarget.modelfile.container import Container, write_container

__all__ = ["inspect_file", "load", "save"]


def save(calibrated: Calibrated, path: Path) -> None:
    """Write the model file; it appears whole or not at all."""
    sections = {
        block_name(block.index): calibrated.sections.section(block_name(block.index))
        for block in calibrated.blocks
    }
    seen = {"fingerprints": calibrated.fingerprints}
    written = {**sections, "assure": _assure(calibrated), "episodes": seen}
    write_container(path, _header(calibrated), written)


def load(path: Path) -> Calibrated:
    """The monitor in a model file, memory-mapped; blocks are checked when first asked for."""
    container = Container.open(path)
    header = container.header
    try:
        schema = Schema.from_json(header["features"])
        behavior = behavior_of(header["behavior"])
        groups = header["groups"]
        assure = container.section("assure")
        return Calibrated(
            schema=schema,
            behavior=behavior,
            horizon=_whole(header["horizon"]),
            grid=float(header["grid"]),
            seed=int(header["seed"]),
            kind=str(header["kind"]),
            blocks=_blocks(header["blocks"], _whole(header["horizon"])),
            groups=None if groups is None else tuple(groups),
            min_calibration=_whole(header["min_calibration"]),
            may_miss=np.array([bool(flag) for flag in header["may_miss"]], dtype=np.bool_),
            policy=str(header["policy"]),
            sizes={str(name): int(size) for name, size in header["sizes"].items()},
            sections=container,
            assure=_episodes(assure, header, schema),
            excess=assure["excess"],
            roles=Roles(**header.get("columns", {})),
            fingerprints=_fingerprints(container),
        )
    except OntargetError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(
            f"{path.name}: its header does not describe a monitor ({error!r})"
        ) from error


def inspect_file(path: Path) -> dict[str, Any]:
    """What a model file says of itself, every section verified."""
    container = Container.open(path)
    container.verify()
    size = path.stat().st_size
    header = dict(container.header)
    return {**header, "bytes": size, "bytes_per_step": size / header["horizon"]}


def _header(calibrated: Calibrated) -> dict[str, Any]:
    return {
        "features": calibrated.schema.to_json(),
        "behavior": calibrated.behavior.spec,
        "horizon": calibrated.horizon,
        "grid": calibrated.grid,
        "seed": calibrated.seed,
        "kind": calibrated.kind,
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in calibrated.blocks],
        "groups": None if calibrated.groups is None else list(calibrated.groups),
        "min_calibration": calibrated.min_calibration,
        "may_miss": calibrated.may_miss.tolist(),
        "policy": calibrated.policy,
        "sizes": dict(calibrated.sizes),
        "columns": asdict(calibrated.roles),
    }


def _assure(calibrated: Calibrated) -> dict[str, AnyArray]:
    """The assure episodes: alarms are calibrated on them once the target is known (M8)."""
    arrays: dict[str, AnyArray] = {"excess": calibrated.excess}
    if calibrated.assure is not None:
        store = calibrated.assure.compact()._store
        arrays |= {
            "states": store.states,
            "before": store.before,
            "outcomes": store.outcomes,
            "lengths": store.lengths,
            "groups": calibrated.assure_groups,
        }
        if store.ahead is not None:
            arrays["ahead"] = store.ahead
    return arrays


def _episodes(arrays: dict[str, AnyArray], header: Any, schema: Schema) -> Episodes | None:
    if "lengths" not in arrays:
        return None
    lengths, horizon = arrays["lengths"].astype(np.intp), _whole(header["horizon"])
    if lengths.min() < 1 or lengths.max() > horizon:
        raise ModelFileError(f"assure episodes need 1 to {horizon} steps")
    alive = [int(np.count_nonzero(lengths > t)) for t in range(int(lengths.max()))]
    rows, n = sum(alive), lengths.size
    behavior = behavior_of(header["behavior"])
    shapes = {"states": (len(schema), rows), "before": (rows,), "outcomes": (n,), "groups": (n,)}
    if behavior.translation in (Translation.FLOOR, Translation.CEILING):
        shapes["ahead"] = (rows,)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(f"assure array {name!r} needs shape {shape}")
    groups = header["groups"]
    store = Store(
        schema=schema,
        behavior=behavior,
        horizon=horizon,
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
        outcomes=arrays["outcomes"],
        ahead=arrays["ahead"] if "ahead" in shapes else None,
    )
    return Episodes(store)


def _fingerprints(container: Container) -> KeyArray:
    if "episodes" not in container.sections:
        return np.empty(0, dtype=np.uint64)
    return container.section("episodes")["fingerprints"].astype(np.uint64)


def _blocks(found: Any, horizon: int) -> tuple[Block, ...]:
    blocks = tuple(Block(index, *map(_whole, ends)) for index, ends in enumerate(found))
    covered = [step for block in blocks for step in block.steps]
    if covered != list(range(horizon)):
        raise ModelFileError(f"blocks need to cover the steps 0 to {horizon - 1} once each")
    return blocks


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ModelFileError(f"the header needs a whole number, got {value!r}")
    return value
