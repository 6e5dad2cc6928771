"""Episodes from NumPy arrays: one array for all episodes, or one array per episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.judged import JudgedBy, Reading, reading_of, readings_of
from ontarget.episodes.recording import Arrangement, RawEpisodes, RawSignal, arrange
from ontarget.episodes.schema import Feature, Schema
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, EpisodesError

_REWARD = "reward"  # the signal that a behavior reads unless it names another


def record_arrays(
    states: Any,
    rewards: Any,
    *,
    ids: ArrayLike | None,
    truncated: ArrayLike | None,
    groups: ArrayLike | None,
    behavior: JudgedBy,
    behavior_values: Any,
    features: Sequence[str] | None,
    categorical: Sequence[str],
    stop_probability: Any = None,
    cutoff: ArrayLike | None = None,
) -> RawEpisodes:
    """The episodes in these arrays, sorted by step, not checked yet; see `Episodes.from_arrays`."""
    judged, rewards, signals = _signals(behavior, rewards, told=behavior_values is not None)
    whole, lengths, dtype = _states(states)
    n = lengths.size
    names = _names(features, whole.shape[1])
    unknown = [name for name in categorical if name not in names]
    if unknown:
        raise EpisodesError(
            Argument("categorical"),
            f" needs names of features ({', '.join(names)}), got {unknown[0]!r}",
        )
    schema = Schema(tuple(Feature(x, dtype, categorical=x in categorical) for x in names))
    arrangement = _arrangement(lengths)
    order = arrangement.order
    columns = whole.T if order is None else np.take(whole.T, order, axis=1)

    def rows(values: Any, what: str) -> FloatArray | None:
        return None if values is None else arrangement.place(_flat(values, lengths, what))

    return RawEpisodes(
        arrangement=arrangement,
        schema=schema,
        behavior=judged,
        several=tuple(
            RawSignal(name, reading, _present(rows(values, f"the signals of behavior {name!r}")))
            for name, reading, values in signals
        ),
        roles=Roles(
            reward=None if rewards is None else "reward",
            truncated=None if truncated is None else "truncated",
            group=None if groups is None else "group",
        ),
        ids=_ids(ids, n),
        groups=None if groups is None else _per_episode(groups, n, "groups"),
        truncated=None if truncated is None else _flags(truncated, n),
        terminated=None,
        states=np.ascontiguousarray(columns, dtype=np.float64),
        rewards=rows(rewards, "rewards"),
        behavior_values=rows(behavior_values, "behavior_values") if judged.told else None,
        stop_probability=rows(stop_probability, "stop_probability"),
        cutoff=None if cutoff is None else _cutoffs(cutoff, n),
    )


def _signals(
    behavior: JudgedBy, rewards: Any, *, told: bool
) -> tuple[Behavior, Any, list[tuple[str, Reading, Any]]]:
    """The first behavior, the rewards, and all behaviors if there are several."""
    if not isinstance(behavior, Mapping):
        reading = reading_of(_named_column(behavior) if told else behavior)
        named = isinstance(rewards, Mapping)
        if named and not reading.behavior.told:
            return reading.behavior, _read_by(reading, "", rewards)[1], []
        if reading.signal is not None:
            _read_by(reading, "", {})
        return reading.behavior, None if named else rewards, []
    if told:
        raise EpisodesError(
            "several behaviors read their signals from ",
            Argument("rewards"),
            "; pass rewards={SIGNAL: …}, and leave out behavior_values",
        )
    readings = readings_of(behavior)
    given = rewards if isinstance(rewards, Mapping) else {_REWARD: rewards}
    several = [(name, *_read_by(one, name, given)) for name, one in readings.items()]
    return several[0][1].behavior, given.get(_REWARD), several


def _named_column(behavior: Any) -> Any:
    """The behavior if the user passes its values directly; without a name, it is "behavior"."""
    is_column = isinstance(behavior, str) and behavior.startswith(("column:", "total:"))
    return behavior if is_column or not isinstance(behavior, str) else "column:behavior"


def _read_by(reading: Reading, name: str, signals: Mapping[str, Any]) -> tuple[Reading, Any]:
    """The behavior with the signal that it is computed from, and the values of this signal."""
    if reading.column is None and name in signals:
        reading = replace(reading, signal=name)
    values = signals.get(reading.column or _REWARD)
    if values is not None:
        return reading, values
    known = ", ".join(map(repr, signals)) or "none"
    needed = reading.column or _REWARD
    raise EpisodesError(
        f"behavior {name or reading.spec!r} needs the signal {needed!r}, but ",
        Argument("rewards"),
        f" has {known}; pass rewards={{{needed!r}: …}}",
    )


def _present(values: FloatArray | None) -> FloatArray:
    assert values is not None
    return values


def _states(states: Any) -> tuple[AnyArray, AnyArray, str]:
    """The states, one row per step; the lengths of the episodes; the NumPy type of the numbers."""
    if isinstance(states, np.ndarray) and states.dtype != np.object_:
        if states.ndim != 3:
            raise EpisodesError(
                Argument("states"),
                f" need shape (episodes, steps, features), got {states.shape}; "
                "for episodes of different lengths pass a list of (steps, features)",
            )
        _check_numeric(states, "states")
        if 0 in states.shape:
            what = "step" if 0 in states.shape[:2] else "feature"
            raise EpisodesError(
                Argument("states"), f" need at least one {what}, got shape {states.shape}"
            )
        n, steps, d = states.shape
        return states.reshape(-1, d), np.full(n, steps), states.dtype.name
    parts = [np.asarray(part) for part in states]
    if not parts:
        raise EpisodesError(Argument("states"), " need at least one episode, got none")
    for i, part in enumerate(parts):
        _check_numeric(part, f"states of episode {i}")
        if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
            raise EpisodesError(
                Argument("states"),
                f" of episode {i} need shape (steps, {parts[0].shape[-1]}) as those of "
                f"episode 0, got {part.shape}",
            )
        if not part.shape[0]:
            raise EpisodesError(f"episode {i} has no step; leave it out")
    lengths = np.array([part.shape[0] for part in parts], dtype=np.intp)
    whole = np.concatenate(parts)
    return whole, lengths, whole.dtype.name


def _arrangement(lengths: AnyArray) -> Arrangement:
    n, steps = lengths.size, int(lengths[0])
    if np.any(lengths != steps):
        return arrange(np.repeat(np.arange(n), lengths), None)
    order = np.arange(n * steps).reshape(n, steps).T.reshape(-1)  # no need to sort
    offsets = np.arange(steps + 1, dtype=np.intp) * n
    return Arrangement(order, np.arange(n) * steps, lengths.astype(np.intp), offsets)


def _flat(values: Any, lengths: AnyArray, what: str) -> FloatArray:
    """One number for each episode and step, one episode after the other, in one flat array."""
    n = lengths.size
    if isinstance(values, np.ndarray) and values.dtype != np.object_:
        shape = (n, int(lengths[0])) if np.all(lengths == lengths[0]) else None
        if values.shape != shape:
            needed = f"shape {shape}" if shape else "to be a list, one array per episode"
            raise EpisodesError(f"{what} need {needed}, like the states, got shape {values.shape}")
        _check_numeric(values, what)
        return values.astype(np.float64).reshape(-1)
    parts = [np.asarray(part) for part in values]
    if len(parts) != n:
        raise EpisodesError(f"{what} need one array for each of {n} episodes, got {len(parts)}")
    for i, part in enumerate(parts):
        _check_numeric(part, f"{what} of episode {i}")
        if part.shape != (lengths[i],):
            raise EpisodesError(
                f"{what} of episode {i} need shape ({lengths[i]},), one number per step, got "
                f"{part.shape}"
            )
    return np.concatenate(parts).astype(np.float64)


def _check_numeric(values: AnyArray, what: str) -> None:
    if values.dtype.kind not in "fiub":
        raise EpisodesError(
            f"{what} need numbers, got the type {values.dtype}; Episodes.from_frame encodes text"
        )
    if values.dtype.kind in "iu" and values.size and np.abs(values).max() > 2**53:
        raise EpisodesError(
            f"{what} need integers up to 2**53: float64 cannot hold larger ones exactly"
        )


def _names(features: Sequence[str] | None, d: int) -> tuple[str, ...]:
    if features is None:
        return tuple(f"x{i}" for i in range(d))
    names = tuple(str(name) for name in features)
    if len(names) != d:
        raise EpisodesError(
            Argument("features"), f" need {d} names, one per column of states, got {len(names)}"
        )
    return names


def _per_episode(values: ArrayLike, n: int, what: str) -> AnyArray:
    array = np.array(values)
    if array.shape != (n,):
        needed = f" need one value for each of {n} episodes, got {array.shape}"
        raise EpisodesError(Argument(what), needed)
    return array


def _ids(ids: ArrayLike | None, n: int) -> AnyArray:
    if ids is None:
        return np.arange(n)
    array = _per_episode(ids, n, "ids")
    found, counts = np.unique(array, return_counts=True)
    if found.size != n:
        raise EpisodesError(
            Argument("ids"), f" need to differ, got {found[np.argmax(counts)]!s} twice"
        )
    return array


def _cutoffs(values: ArrayLike, n: int) -> FloatArray:
    array = _per_episode(values, n, "cutoff")
    _check_numeric(array, "cutoff")
    return array.astype(np.float64)


def _flags(values: ArrayLike, n: int) -> BoolArray:
    array = _per_episode(values, n, "truncated")
    strange = ~np.isin(array, (0, 1))
    if strange.any():
        raise EpisodesError(
            Argument("truncated"), f" needs true or false, got {array[strange][0]!s}"
        )
    return array.astype(np.bool_)
