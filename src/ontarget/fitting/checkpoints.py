"""Checkpoints: one file per fitted block, so that an interrupted fit can resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._arguments import usable_path
from ontarget._typing import AnyArray, FloatArray
from ontarget.errors import ModelFileError
from ontarget.fitting.tasks import BlockResult, StepRows
from ontarget.modelfile.container import Container, write_container
from ontarget.models.entry import model_arrays
from ontarget.models.registry import model_of_kind


class Checkpoint:
    """A folder with one file per fitted block (range of steps that share a model).

    Parameters
    ----------
    folder
        Where the files are; it is made if it does not exist.
    key
        A hash of data, parameters and seed; see `digest_of`.
    asked
        A function that gives, for a block's number, the rows that the block must have predictions
        for, by the part of the split that they belong to. A file without exactly these predictions
        counts as damaged.
    """

    def __init__(
        self,
        folder: str | Path,
        key: str,
        asked: Callable[[int], Mapping[str, Sequence[StepRows]]],
    ) -> None:
        self._folder = usable_path(folder, error=ModelFileError)
        self._key = key
        self._asked = asked
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
                f"the checkpoint folder {self._folder} has {others[0]}, a file of another fit "
                "(other data, parameters or seed); pass an empty folder, or delete its .block "
                "files"
            )

    def load(self, index: int) -> BlockResult | None:
        """The fitted block (model of a range of steps) with this number; None if not stored."""
        path = self._path(index)
        if not path.exists():
            return None
        try:
            container = Container.open(path, copy=None)
            return _result(container, self._name(index), self._asked(index))
        except (ArithmeticError, LookupError, ModelFileError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the checkpoint {path} is damaged: {error}; delete it and fit again, which "
                f"computes this block again"
            ) from error

    def save(self, index: int, result: BlockResult) -> None:
        """Store a fitted block (the model of a range of steps), completely or not at all."""
        model = result.model
        sections = {} if model is None else {"model": model_arrays(model)}
        for part, steps in result.limits.items():
            for step, (left, right) in steps.items():
                sections[f"{part}-{step:05d}"] = {"left": left, "right": right}
        header = {
            "block": self._name(index),
            "kind": None if model is None else model.kind,
            "steps": {part: list(steps) for part, steps in result.limits.items()},
        }
        write_container(self._path(index), header, sections)

    def _path(self, index: int) -> Path:
        return self._folder / f"{self._name(index)}.block"

    def _name(self, index: int) -> str:
        return f"{self._key}-{index:05d}"


def _result(
    container: Container, name: str, asked: Mapping[str, Sequence[StepRows]]
) -> BlockResult:
    """The fitted block (model of a range of steps) in a checkpoint file."""
    if container.header["block"] != name:  # a file that was renamed
        raise ModelFileError(f"it contains another block, {container.header['block']!r}")
    kind, model = container.header["kind"], None
    if kind is not None:
        model = model_of_kind(kind).from_arrays(container.section("model"))
    answered = {part: [one.step for one in rows] for part, rows in asked.items() if model}
    if container.header["steps"] != ({part: [] for part in asked} | answered):
        raise ModelFileError("it has predictions for other steps than this block should")
    limits = {
        part: {one.step: _limits(container, part, one) for one in (rows if model else ())}
        for part, rows in asked.items()
    }
    return BlockResult(model, limits)


def _limits(container: Container, part: str, asked: StepRows) -> tuple[FloatArray, FloatArray]:
    """The stored predictions at one step, after checks: P(remainder < y) and P(remainder <= y)."""
    # The remainder is what is still to earn.
    # NaN means that every tree has seen the episode, so that it has no out-of-bag prediction.
    arrays = container.section(f"{part}-{asked.step:05d}")
    left, right = arrays["left"], arrays["right"]
    pairs = left.shape == right.shape == asked.y.shape and left.dtype == right.dtype == np.float64
    ordered = pairs and np.all((left >= 0.0) & (left <= right) & (right <= 1.0) | np.isnan(left))
    if not ordered or not np.array_equal(np.isnan(left), np.isnan(right)):
        raise ModelFileError(
            f"part {part!r} at step {asked.step} needs one pair 0 <= left <= right <= 1 per episode"
        )
    return left, right


def digest_of(description: dict[str, Any], arrays: Sequence[AnyArray]) -> str:
    """A hash of the description and the arrays, as 16 hexadecimal digits."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=8)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
