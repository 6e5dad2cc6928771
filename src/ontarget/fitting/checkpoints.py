"""What survives a killed fit: one file per fitted block, named by what it was fitted from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import AnyArray
from ontarget.errors import ModelFileError
from ontarget.fitting.tasks import BlockResult, StepLimits
from ontarget.modelfile.container import Container, write_container
from ontarget.models._entry import model_arrays
from ontarget.models.registry import model_of_kind

__all__ = ["Checkpoint", "digest_of"]


class Checkpoint:
    """A folder with one file per fitted block.

    Parameters
    ----------
    folder
        Where the files stand; made if it is not there.
    key
        The digest of data, parameters and seed; see `digest_of`.
    """

    def __init__(self, folder: str | Path, key: str) -> None:
        self._folder = Path(folder)
        self._key = key
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelFileError(
                f"the checkpoint folder {self._folder} cannot be made: {error.strerror}; pass a "
                "folder that is empty, or a path where one can be made"
            ) from error
        others = sorted(
            path.name for path in self._folder.glob("*.block") if not path.name.startswith(key)
        )
        if others:
            raise ModelFileError(
                f"the checkpoint folder {self._folder} holds {others[0]} of another fit (other "
                "data, parameters or seed); pass an empty folder, or remove its .block files"
            )

    def load(self, index: int) -> BlockResult | None:
        """The block fitted earlier, if it was."""
        path = self._path(index)
        if not path.exists():
            return None
        try:
            return _result(Container.open(path, copy=None), self._name(index))
        except (ArithmeticError, LookupError, ModelFileError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the checkpoint {path} is damaged: {error}; delete it, and the fit makes this "
                "block again"
            ) from error

    def save(self, index: int, result: BlockResult) -> None:
        """Keep a fitted block; the file appears whole or not at all."""
        model = result.model
        sections = {} if model is None else {"model": model_arrays(model)}
        for part, steps in result.limits.items():
            for one in steps:
                sections[f"{part}-{one.step:05d}"] = {"left": one.left, "right": one.right}
        header = {
            "block": self._name(index),
            "kind": None if model is None else model.kind,
            "steps": {part: [one.step for one in steps] for part, steps in result.limits.items()},
        }
        write_container(self._path(index), header, sections)

    def _path(self, index: int) -> Path:
        return self._folder / f"{self._name(index)}.block"

    def _name(self, index: int) -> str:
        return f"{self._key}-{index:05d}"


def _result(container: Container, name: str) -> BlockResult:
    """The fitted block that a checkpoint holds; raises if it can be none of this name."""
    if container.header["block"] != name:  # a file that was renamed
        raise ModelFileError(f"it holds block {container.header['block']!r}")
    kind, model = container.header["kind"], None
    if kind is not None:
        model = model_of_kind(kind).from_arrays(container.section("model"))
    steps = container.header["steps"]
    if sorted(steps) != ["assure", "calibrate"]:
        raise ModelFileError(f"it needs limits of calibrate and assure, got {sorted(steps)}")
    return BlockResult(model, {part: _limits(container, part) for part in steps})


def _limits(container: Container, part: str) -> tuple[StepLimits, ...]:
    """Both limits of every step: numbers from 0 to 1, in order, one pair per episode."""
    found: list[StepLimits] = []
    for given in container.header["steps"][part]:
        step = whole_number("step", given, least=found[-1].step + 1 if found else 0)
        arrays = container.section(f"{part}-{step:05d}")
        left, right = arrays["left"], arrays["right"]
        pairs = left.ndim == 1 and left.shape == right.shape and left.dtype.kind == "f"
        if not pairs or not np.all((left >= 0.0) & (left <= right) & (right <= 1.0)):
            raise ModelFileError(
                f"{part} at step {step} needs pairs 0 <= left <= right <= 1, one per episode"
            )
        found.append(StepLimits(step, left, right))
    return tuple(found)


def digest_of(description: dict[str, Any], arrays: Sequence[AnyArray]) -> str:
    """A short name for data, parameters and seed: equal exactly when all of them are."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=8)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
