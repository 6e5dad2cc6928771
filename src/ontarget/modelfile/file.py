"""Saving a fitted monitor to a model file, loading it, and describing such a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ontarget._typing import AnyArray, KeyArray
from ontarget.episodes import Behavior, behavior_of
from ontarget.episodes.facts import MOST_FINGERPRINTS
from ontarget.errors import ModelFileError, OntargetError
from ontarget.fitted.blocks import LawTable
from ontarget.fitted.curves import CurveTable, RankTable
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitted.paths.gains import NO_MAPS, PathMaps
from ontarget.fitted.recorded import RecordedRuns, Rehearsal
from ontarget.modelfile._assured import assure_arrays, assure_in, excess_in, unknown_before
from ontarget.modelfile._description import Description
from ontarget.modelfile._packing import packed, unpacked
from ontarget.modelfile.container import Container, container_bytes, write_container
from ontarget.models.entry import check_rows, check_width, model_arrays
from ontarget.models.guided.run import RunGuide
from ontarget.models.registry import model_of_kind
from ontarget.models.stored import flat_array

# The header may state up to this many pairs of a step and a group without as many ranks in the
# file. A watch takes 250 bytes for each pair.
_ALWAYS = 100_000


class Sections(Protocol):
    """An open model file: a header and named sections of arrays."""

    @property
    def name(self) -> str:
        """The path of the file."""
        ...

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the file, which describes the monitor."""
        ...

    def section(self, name: str) -> dict[str, AnyArray]:
        """The arrays of a section by name."""
        ...

    def release(self, name: str) -> None:
        """Give the memory of a section back to the system; the section can be read again."""
        ...


def save(fitted: Fitted, path: Path) -> None:
    """Write a fitted monitor to a model file, completely or not at all."""
    write_container(path, Description.header_of(fitted), sections_of(fitted))


def load(path: Path, *, copy: bool | None = None, behavior: Behavior | None = None) -> Fitted:
    """The fitted monitor in a model file."""
    return fitted_in(Container.open(path, copy=copy), behavior)


def fitted_bytes(fitted: Fitted) -> bytes:
    """The bytes that `save` would write."""
    return container_bytes(Description.header_of(fitted), sections_of(fitted))


def fitted_from_bytes(data: bytes, *, behavior: Behavior | None = None) -> Fitted:
    """The fitted monitor in the bytes that `fitted_bytes` returned."""
    return fitted_in(Container.from_bytes(data), behavior)


def inspect_file(path: Path) -> dict[str, Any]:
    """What the header of a model file says, the file's size, and what it stores of episodes."""
    container = Container.open(path, copy=None)
    container.verify()
    with _forged(container.name):
        about = Description.of(container.header)
    size = path.stat().st_size
    learn, rehearsal = (unpacked(name, container.section(name)) for name in ("learn", "rehearsal"))
    mapped_from = rehearsal.get("lengths", np.empty(0)).size
    sizes = {"bytes": size, "bytes_per_step": size / about.horizon, "mapped_from": mapped_from}
    outcomes = learn.get("outcomes", rehearsal.get("outcomes", np.empty(0)))
    target = {} if about.target is None else {"target": str(about.target)}
    return {**container.header, **sizes, "outcomes": outcome_range(outcomes), **target}


def outcome_range(outcomes: AnyArray) -> dict[str, float]:
    """The least and the greatest of these outcomes, and how many there are; empty if none."""
    if not outcomes.size:
        return {}
    return {"least": float(outcomes.min()), "most": float(outcomes.max()), "runs": outcomes.size}


class FiledModels:
    """The fitted models in a file, one per range of steps, each opened and checked on first use."""

    def __init__(
        self,
        container: Sections,
        kinds: tuple[str | None, ...],
        *,
        width: int,
        learned: tuple[int, int],
    ) -> None:
        self._container = container
        self._kinds = kinds
        self._width = width
        self._learned = learned
        self._opened: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self._opened:
            self._opened[index] = self._open(index)
        return self._opened[index]

    def release(self) -> None:
        """Give the memory of the models that were opened back to the system."""
        for index in self._opened:
            if self._kinds[index] is not None:
                self._container.release(_block_name(index))

    def _open(self, index: int) -> Any:
        kind = self._kinds[index]
        if kind is None:
            return None
        arrays = self._container.section(_block_name(index))
        with _forged(f"{self._container.name}: block {index}"):
            model = model_of_kind(kind).from_arrays(arrays)
            check_width(model, self._width)
            check_rows(model, *self._learned)
            return model


@contextmanager
def _forged(where: str) -> Iterator[None]:
    """A context that turns any error from a file's contents into a `ModelFileError`."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{where}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, OntargetError) else repr(error)
        raise ModelFileError(
            f"{where}: it does not contain a fitted monitor ({said:.500})"
        ) from error


def _block_name(index: int) -> str:
    return f"block-{index:05d}"


def sections_of(fitted: Fitted) -> dict[str, Mapping[str, AnyArray]]:
    """The arrays of a fitted monitor, by the section of the model file they belong to."""
    models = [fitted.models[block.index] for block in fitted.blocks]
    law = fitted.law
    sections: dict[str, Mapping[str, AnyArray]] = {
        **{
            _block_name(index): model_arrays(model)
            for index, model in enumerate(models)
            if model is not None
        },
        "assure": assure_arrays(fitted),
        "episodes": {"fingerprints": fitted.trained.fingerprints},
        "learn": fitted.runs.to_arrays(),
        "paths": fitted.path_maps.to_arrays() if fitted.path_maps.steps.size else {},
        "law": {
            "starts": law.starts,
            "blocks": law.blocks,
            "weights": law.weights,
            **({} if fitted.guide is None else fitted.guide.to_arrays()),
        },
        "ranks": fitted.ranks.to_arrays(),
        "curves": {} if fitted.curves is None else fitted.curves.to_arrays(),
        "rehearsal": {} if fitted.rehearsal is None else fitted.rehearsal.to_arrays(),
    }
    return {name: packed(name, arrays) for name, arrays in sections.items()}


def fitted_in(container: Sections, given: Behavior | None) -> Fitted:
    """The fitted monitor in an open model file, or in its part for one of several behaviors."""
    named = ("assure", "curves", "episodes", "law", "learn", "paths", "ranks", "rehearsal")
    sections = {name: unpacked(name, container.section(name)) for name in named}
    with _forged(container.name):
        if "weights" in sections["ranks"] or "weights" in sections["assure"]:
            raise ModelFileError(
                "a monitor of episodes with weights (Episodes.weighted) is gone; fit the monitor "
                "again, or use ontarget 0.2"
            )
        about = Description.of(container.header)
        behavior = _behavior(about.behavior, given)
        # This table has an entry for every step. So from here on the horizon is known to be no
        # larger than the file, and nothing below takes more memory than that.
        law = _law(sections["law"], about.horizon, len(about.blocks))
        learned = _n_recorded(sections["learn"], about), about.horizon
        assure = assure_in(sections["assure"], about, behavior)
        fitted = Fitted(
            schema=about.schema,
            behavior=behavior,
            horizon=about.horizon,
            horizon_declared=about.horizon_declared,
            grid=about.grid,
            unrounded=about.unrounded,
            reward_bounds=about.reward_bounds,
            blocks=about.blocks,
            law=law,
            models=(),
            ranks=_ranks(sections["ranks"], about),
            curves=_curves(sections["curves"], about),
            groups=about.groups,
            min_calibration=about.min_calibration,
            may_miss=about.may_miss,
            assure=assure,
            excess=excess_in(sections["assure"]),
            pace=about.pace,
            impossible=about.impossible,
            trained=Trained(
                parameters=about.parameters,
                seed=about.seed,
                sizes=about.sizes,
                roles=about.roles,
                censoring=about.censoring,
                fingerprints=_fingerprints(sections["episodes"], about.sizes),
                chosen=about.chosen,
                target=about.target,
            ),
            rehearsal=_rehearsal(
                sections["rehearsal"], about, behavior, assured=assure is not None
            ),
            runs=_runs(sections["learn"], behavior, learned),
            path_maps=_path_maps(sections["paths"], about.horizon),
            history=about.history,
        )
        if "columns" in sections["law"]:
            guide = RunGuide.from_arrays(sections["law"], fitted.width)
            fitted = replace(fitted, guide=guide)
        models = FiledModels(container, about.kinds, width=fitted.width, learned=learned)
        return replace(fitted, models=models)


def _curves(arrays: Mapping[str, AnyArray], about: Description) -> CurveTable | None:
    """The calibration curves in the file, which turn raw p into calibrated p."""
    if "learn" not in about.sizes:
        return None
    return CurveTable.from_arrays(arrays, about.horizon, about.n_groups)


def _ranks(arrays: Mapping[str, AnyArray], about: Description) -> RankTable:
    """For each step and group of runs, the ranks from which promises are computed."""
    # With ``preset="paper"``, there must be enough ranks for the number of steps and groups.
    found = RankTable.from_arrays(arrays, about.horizon, about.n_groups)
    pairs = about.horizon * about.n_groups
    if "learn" not in about.sizes and pairs > max(_ALWAYS, found.values.size):
        raise ModelFileError(
            f"{pairs:,} pairs of a step and a group need at least as many ranks, got "
            f"{found.values.size:,} ranks"
        )
    return found


def _n_recorded(arrays: Mapping[str, AnyArray], about: Description) -> int:
    """How many runs the models learned from."""
    # After a recalibration, the header may count more runs as "learn" than the models learned from,
    # because the calibration of p also used newer runs. p is the probability of meeting the target.
    n = next(iter(about.sizes.values()))
    return min(n, arrays["outcomes"].size) if "outcomes" in arrays else n


def _runs(
    arrays: Mapping[str, AnyArray], behavior: Behavior, learned: tuple[int, int]
) -> RecordedRuns:
    """What the file stores about the episodes that models learned from, after checking it."""
    found = RecordedRuns.from_arrays(arrays, n=learned[0], horizon=learned[1])
    if found.before is not None and unknown_before(found.before, behavior):
        raise ModelFileError("learn array 'before' needs finite numbers up to 1e300")
    return found


def _path_maps(arrays: Mapping[str, AnyArray], horizon: int) -> PathMaps:
    """The corrections for predicted paths in a model file."""
    return PathMaps.from_arrays(arrays, horizon) if "steps" in arrays else NO_MAPS


def _rehearsal(
    arrays: Mapping[str, AnyArray], about: Description, behavior: Behavior, *, assured: bool
) -> Rehearsal | None:
    """The stored predictions about learning episodes, each as if it had not been learned from."""
    if "learn" not in about.sizes:
        return None
    found = Rehearsal.from_arrays(
        arrays, horizon=about.horizon, n_groups=about.n_groups, most=about.sizes["learn"]
    )
    if unknown_before(found.before, behavior):
        raise ModelFileError("rehearsal array 'before' needs finite numbers up to 1e300")
    if not assured and found.steps.size != about.horizon:
        raise ModelFileError(
            "rehearsal array 'steps' needs every step, because without assure episodes alarm "
            "thresholds come from the rehearsal"
        )
    return found


def _fingerprints(arrays: Mapping[str, AnyArray], sizes: Mapping[str, int]) -> KeyArray:
    """A 64-bit hash of each episode that was used for fitting, part after part of the split."""
    found = flat_array(arrays, "fingerprints", np.uint64)
    n = sum(min(size, MOST_FINGERPRINTS) for size in sizes.values())
    if found.size != n:
        raise ModelFileError(f"episodes array 'fingerprints' needs {n} numbers, got {found.size}")
    return found


def _behavior(spec: str, given: object) -> Behavior:
    """The built-in behavior (the number runs are judged by) that a file names, or ``given``."""
    # ``given`` must have the name in the file.
    if given is None:
        if spec.startswith("own:"):
            raise ModelFileError(
                f"the monitor's behavior {spec:.200} is a class that its user wrote, which the "
                f"file does not contain; pass it: GoalMonitor.load(path, behavior={spec[4:204]})"
            )
        return behavior_of(spec)
    if not isinstance(given, Behavior) or given.spec != spec:
        shown = given.spec if isinstance(given, Behavior) else repr(given)
        raise ModelFileError(
            f"`behavior` needs to be the one that the monitor was fitted with, {spec:.200}, got "
            f"{shown:.200}"
        )
    return given


def _law(arrays: Mapping[str, AnyArray], horizon: int, n_blocks: int) -> LawTable:
    law = LawTable(
        starts=flat_array(arrays, "starts", np.int64),
        blocks=flat_array(arrays, "blocks", np.int64),
        weights=flat_array(arrays, "weights", np.float64),
    )
    if law.horizon != horizon:
        raise ModelFileError(
            f"section 'law' needs one entry per step of the horizon, got {law.horizon} entries for "
            f"horizon {horizon}"
        )
    if not np.all((law.blocks >= 0) & (law.blocks < n_blocks)):
        raise ModelFileError(f"law array 'blocks' needs numbers from 0 to {n_blocks - 1}")
    return law
