"""Where fit tasks run, how far they are, and what survives a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ontarget._extras import require
from ontarget._progress import progress_bar
from ontarget._threads import n_threads
from ontarget._typing import AnyArray
from ontarget.errors import InputError, ModelFileError
from ontarget.fitting.tasks import BlockTask, fit_block
from ontarget.modelfile.container import Container, write_container

__all__ = ["Checkpoint", "Engine", "fingerprint", "run_tasks"]

Engine: TypeAlias = Literal["local", "dask", "ray"]
ENGINES: tuple[Engine, ...] = ("local", "dask", "ray")


class Checkpoint:
    """A folder with one file per fitted block, named by what it was fitted from."""

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

    def load(self, index: int) -> dict[str, AnyArray] | None:
        """The block fitted earlier, if it was."""
        path = self._path(index)
        if not path.exists():
            return None
        return dict(Container.open(path).section("block"))

    def save(self, index: int, arrays: dict[str, AnyArray]) -> None:
        """Keep a fitted block; the file appears whole or not at all."""
        write_container(self._path(index), {"block": index}, {"block": arrays})

    def _path(self, index: int) -> Path:
        return self._folder / f"{self._key}-{index:05d}.block"


def fingerprint(description: dict[str, Any], arrays: Sequence[AnyArray]) -> str:
    """A short name for data, parameters and seed: equal exactly when all of them are."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=8)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def run_tasks(
    make: Callable[[int], BlockTask],
    n_blocks: int,
    *,
    engine: Engine,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> list[dict[str, AnyArray]]:
    """The fitted blocks in order. Tasks run by the engine; only this process writes."""
    if engine not in ENGINES:
        raise InputError(f"engine needs one of {', '.join(ENGINES)}, got {engine!r}")
    done: dict[int, dict[str, AnyArray]] = {}
    bar = progress_bar("fitting", n_blocks, unit="blocks of steps", shown=progress)
    with bar as reached, _workers(engine) as run:
        for index in range(n_blocks):
            kept = None if checkpoint is None else checkpoint.load(index)
            if kept is not None:
                done[index] = kept
        reached(len(done))
        waiting = [index for index in range(n_blocks) if index not in done]
        for index, arrays in run(make, waiting):
            if checkpoint is not None:
                checkpoint.save(index, arrays)
            done[index] = arrays
            reached(len(done))
    return [done[index] for index in range(n_blocks)]


Runner: TypeAlias = Callable[
    [Callable[[int], BlockTask], Sequence[int]], Iterator[tuple[int, dict[str, AnyArray]]]
]


@contextmanager
def _workers(engine: Engine) -> Iterator[Runner]:
    """How tasks run: here, one after the other on all threads, or on a cluster in batches."""
    if engine == "local":
        yield lambda make, waiting: ((index, fit_block(make(index))) for index in waiting)
        return
    from joblib import Parallel, delayed, parallel_config

    if engine == "ray":
        require("ray.util.joblib", extra="ray").register_ray()
    else:
        require("distributed", extra="dask")

    def run(
        make: Callable[[int], BlockTask], waiting: Sequence[int]
    ) -> Iterator[tuple[int, dict[str, AnyArray]]]:
        batch = max(1, 2 * n_threads())
        for start in range(0, len(waiting), batch):
            some = waiting[start : start + batch]
            fitted = Parallel()(delayed(fit_block)(make(index)) for index in some)
            yield from zip(some, fitted, strict=True)

    with parallel_config(backend=engine):
        yield run
