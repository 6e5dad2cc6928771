"""The assure episodes (held out to back the promises) in a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, FloatArray
from ontarget.episodes import Behavior, Episodes, Translation
from ontarget.episodes.store import Roles, Store
from ontarget.errors import ModelFileError
from ontarget.fitted.fitted import Fitted
from ontarget.modelfile._description import Description
from ontarget.models.stored import flat_array
from ontarget.target import Closed, Target

_CLOSED: Final[dict[tuple[bool, bool], Closed]] = {
    (True, True): "both",
    (True, False): "left",
    (False, True): "right",
    (False, False): "neither",
}


def assure_arrays(fitted: Fitted) -> dict[str, AnyArray]:
    """The arrays of a model file about the assure episodes (held out to back the promises)."""
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
        if store.history.reads_rewards and store.rewards is not None:
            arrays["rewards"] = store.rewards
        if store.ahead is not None:
            arrays["ahead"] = store.ahead
        if store.wanted is not None:
            arrays["wanted"] = _wanted_array(store.wanted)
    return arrays


def _wanted_array(targets: Sequence[Target | None]) -> FloatArray:
    """The target of each episode as an array with one row per interval of a target, (rows, 5)."""
    rows = [
        (i, *component)
        for i, target in enumerate(targets)
        if target is not None
        for component in target.components
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def _wanted(arrays: Mapping[str, AnyArray], n: int) -> tuple[Target | None, ...] | None:
    """The target of each assure episode, an episode held out to back the promises."""
    if "wanted" not in arrays:
        return None
    found = arrays["wanted"]
    if found.dtype != np.float64 or found.ndim != 2 or found.shape[1] != 5:
        raise ModelFileError(
            "assure array 'wanted', the episodes' own targets, needs five 64-bit floats per row"
        )
    targets: list[Target | None] = [None] * n
    for i, low, high, low_closed, high_closed in found.tolist():
        if i not in range(n) or low_closed not in (0.0, 1.0) or high_closed not in (0.0, 1.0):
            raise ModelFileError(
                "assure array 'wanted' needs the index of an assure episode as the first number of "
                "each row, and 0 or 1 as the last two"
            )
        closed = _CLOSED[bool(low_closed), bool(high_closed)]
        mine = Target(low, high, closed)
        before = targets[int(i)]
        targets[int(i)] = mine if before is None else before | mine
    return tuple(targets)


def _named(groups: tuple[Any, ...], codes: AnyArray) -> AnyArray:
    """The name of each episode's group; episodes of one group share the same str object."""
    names = np.array(groups, dtype=object if isinstance(groups[0], str) else None)
    return names[codes]


def excess_in(arrays: Mapping[str, AnyArray]) -> FloatArray:
    """The excess of each assure episode, (n,): how far its outcome ever was from the middle."""
    excess = flat_array(arrays, "excess", np.float64)
    if not np.all(((excess >= 0.0) & (excess <= 0.5)) | (excess == np.inf)):
        raise ModelFileError(
            "assure array 'excess' needs numbers from 0 to 0.5, or infinity for a cut-off run"
        )
    if "lengths" not in arrays and excess.size:
        raise ModelFileError(
            "assure array 'excess' needs to be empty, because the file has no assure episodes"
        )
    if excess.size and np.isinf(excess).all():
        raise ModelFileError(
            "assure array 'excess' needs at least one finite number: an episode not cut off"
        )
    return excess


def assure_in(
    arrays: Mapping[str, AnyArray], about: Description, behavior: Behavior
) -> Episodes | None:
    """The assure episodes (held out to back the promises) in a model file, checked; or None."""
    if "lengths" not in arrays:
        return None
    lengths, codes = (flat_array(arrays, name, np.int64) for name in ("lengths", "groups"))
    most = about.horizon if about.horizon_declared else arrays["before"].size
    if not lengths.size or lengths.min() < 1 or lengths.max() > most:
        raise ModelFileError(f"assure array 'lengths' needs numbers of steps from 1 to {most}")
    if codes.size and (codes.min() < 0 or codes.max() >= about.n_groups):
        raise ModelFileError(f"assure array 'groups' needs numbers from 0 to {about.n_groups - 1}")
    ended = np.cumsum(np.bincount(lengths))[:-1]  # how many episodes have ended by each step
    offsets = np.concatenate([[0], np.cumsum(lengths.size - ended)]).astype(np.intp)
    rows, n = int(offsets[-1]), lengths.size
    shapes = {"states": (len(about.schema), rows), "before": (rows,), "outcomes": (n,)}
    if behavior.translation in (Translation.FLOOR, Translation.CEILING):
        shapes["ahead"] = (rows,)
    if about.history.reads_rewards and not behavior.told:
        shapes["rewards"] = (rows,)
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise ModelFileError(f"assure array {name!r} needs 64-bit floats of shape {shape}")
    if codes.size != n or arrays["excess"].size != n:
        raise ModelFileError(
            f"assure arrays 'groups' and 'excess' need one number for each of {n} episodes"
        )
    for name in {"outcomes", "ahead"} & set(shapes):
        if not np.all(np.abs(arrays[name]) <= LARGEST_OUTCOME):  # false for NaN
            raise ModelFileError(f"assure array {name!r} needs finite numbers up to 1e300")
    before = arrays["before"]
    if unknown_before(before, behavior):
        raise ModelFileError("assure array 'before' needs finite numbers up to 1e300")
    store = Store(
        schema=about.schema,
        behavior=behavior,
        horizon=about.horizon,
        horizon_declared=about.horizon_declared,
        roles=Roles(reward=None),
        ids=np.arange(n),
        groups=None if about.groups is None else _named(about.groups, codes),
        wanted=_wanted(arrays, n),
        truncated=np.isinf(arrays["excess"]),
        terminated=None,
        lengths=lengths.astype(np.intp),
        offsets=offsets,
        states=arrays["states"],
        rewards=arrays["rewards"] if "rewards" in shapes else None,
        before=before,
        ahead=arrays["ahead"] if "ahead" in shapes else None,
        outcomes=arrays["outcomes"],
        history=about.history,
    )
    return Episodes(store, grid=about.grid)


def unknown_before(before: FloatArray, behavior: Behavior) -> bool:
    """Whether ``before`` has a number that is impossible for this behavior."""
    # The behavior is the number that a run is judged by; ``before`` has its values before steps.
    # They must be finite and at most 1e300 in size. NaN is allowed if the behavior is read from a
    # column.
    known = np.abs(before) <= LARGEST_OUTCOME  # false for NaN
    return not bool(np.all(known | np.isnan(before) if behavior.reads_so_far else known))
