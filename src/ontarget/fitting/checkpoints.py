"""What survives a killed fit: one file per fitted block, named by what it was fitted from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

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
        self._folder.mkdir(parents=True, exist_ok=True)
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
            return _result(Container.open(path, copy=None))
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
            "kind": None if model is None else model.kind,
            "steps": {part: [one.step for one in steps] for part, steps in result.limits.items()},
        }
        write_container(self._path(index), header, sections)

    def _path(self, index: int) -> Path:
        return self._folder / f"{self._key}-{index:05d}.block"


def _result(container: Container) -> BlockResult:
    """The fitted block that a checkpoint holds."""
    kind, model = container.header["kind"], None
    if kind is not None:
        model = model_of_kind(kind).from_arrays(container.section("model"))
    limits = {
        part: tuple(
            StepLimits(int(step), *container.section(f"{part}-{step:05d}").values())
            for step in steps
        )
        for part, steps in container.header["steps"].items()
    }
    return BlockResult(model, limits)


def digest_of(description: dict[str, Any], arrays: Sequence[AnyArray]) -> str:
    """A short name for data, parameters and seed: equal exactly when all of them are."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=8)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
