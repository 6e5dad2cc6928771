"""How an environment of Gymnasium is read: observations, time limits, resets, and named signals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ontarget._package import require
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Schema
from ontarget.errors import Argument, HorizonWarning, InputError
from ontarget.reading.observations import SPACES, Numbers, ObservationLayout, read_layout


def layout_of(space: Any) -> ObservationLayout:
    """How an observation of this Gymnasium space becomes a row of named numbers."""
    return read_layout(space, _opened)


def _opened(space: Any, where: str) -> Numbers | Mapping[Any, Any]:
    """The parts of a ``Dict`` or ``Tuple`` space by key; for other spaces, shape and type."""
    spaces = require("gymnasium.spaces", extra="gym")
    if isinstance(space, spaces.Dict):
        return dict(space.items())
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(space.spaces))
    names = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    if names or isinstance(space, spaces.Box | spaces.MultiBinary):
        return Numbers(tuple(space.shape), np.dtype(space.dtype).name, categorical=names)
    raise InputError(
        f"{SPACES}, got {type(space).__name__}{where}; wrap the environment in a "
        "gymnasium.wrappers.TransformObservation that gives one of these"
    )


class MonitorView:
    """Turns observations into rows with the monitor's features in the monitor's order.

    Features are matched by name if the names of layout and monitor agree. If only their number
    agrees, because the user chose other names, features are matched by position.
    """

    def __init__(self, layout: ObservationLayout, schema: Schema) -> None:
        if len(layout) != len(schema):
            raise InputError(
                f"the monitor was fitted on {len(schema)} features ({_listed(schema.names)}), but "
                f"this environment's observations have {len(layout)} ({_listed(layout.names)}); "
                "record this environment and fit again, or wrap it in a "
                "gymnasium.wrappers.TransformObservation"
            )
        self._layout = layout
        self._order: IndexArray | None = None
        if layout.names != schema.names and set(layout.names) == set(schema.names):
            place = {name: i for i, name in enumerate(layout.names)}
            self._order = np.array([place[name] for name in schema.names], dtype=np.intp)

    def row(self, observation: Any) -> FloatArray:
        """One observation as a row of numbers, in the order of the monitor's features."""
        return self._ordered(self._layout.row(observation).astype(np.float64))

    def rows(self, observations: Any, n: int) -> FloatArray:
        """A batch of n observations as rows of numbers, in the order of the monitor's features."""
        return self._ordered(self._layout.rows(observations, n).astype(np.float64))

    def _ordered(self, values: FloatArray) -> FloatArray:
        if self._order is None:
            return values
        ordered: FloatArray = values[..., self._order]
        return ordered


def _listed(names: tuple[str, ...], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def time_limit(env: Any) -> int | None:
    """The number of steps after which an environment cuts a run off; None if it is not known."""
    gymnasium = require("gymnasium", extra="gym")
    if hasattr(env, "num_envs"):
        parts = getattr(env.unwrapped, "envs", None)
        if parts:
            each = {time_limit(part) for part in parts}
            return each.pop() if len(each) == 1 else None
        spec = getattr(env, "spec", None)
        return None if spec is None else spec.max_episode_steps
    # The specification alone proves nothing: an unwrapped environment keeps it and has no limit.
    limits: set[int] = set()
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.add(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def gone_past(horizon: int) -> str:
    """A sentence: why the status of a run is UNKNOWN after the monitor's declared horizon."""
    return (
        f"the run continues after the monitor's horizon of {horizon} steps, where it was judged; "
        f"to watch longer runs, record some and fit again"
    )


def too_short(limit: int | None, horizon: int) -> str:
    """A sentence: why every run is UNKNOWN if the time limit is below the horizon; else empty."""
    if limit is None or limit >= horizon:
        return ""
    return (
        f"this environment cuts runs off after {limit} steps, and the monitor was fitted on runs "
        f"of up to {horizon}; record this environment, or raise its max_episode_steps"
    )


def warn_of_limit(limit: int | None, horizon: int, *, declared: bool, stacklevel: int) -> None:
    """Warn if the environment's time limit differs from the monitor's horizon."""
    trouble = too_short(limit, horizon)
    if declared and limit is not None and limit > horizon:
        trouble = (
            f"this environment's runs may last {limit} steps, but the monitor judges a run at its "
            f"horizon of {horizon}, and after that the status is UNKNOWN; to watch whole runs, "
            f"record this environment with horizon={limit} and fit again"
        )
    if trouble:
        warnings.warn(trouble, HorizonWarning, stacklevel=stacklevel + 1)


def warn_of_no_limit(*, stacklevel: int) -> None:
    """Warn that runs are recorded until they terminate, however long that takes."""
    warnings.warn(
        "this environment has no time limit: each run is recorded until it terminates, and the "
        "horizon becomes the longest run, which differs from one recording to the next; pass "
        "horizon= to end every run after the same number of steps",
        HorizonWarning,
        stacklevel=stacklevel + 1,
    )


class Rows(NamedTuple):
    """For each environment of a vector, three flags: its run took a step, ended, or began."""

    moved: BoolArray
    ended: BoolArray
    began: BoolArray


class Autoreset:
    """Keeps track of which runs of a vector environment have ended.

    Parameters
    ----------
    env
        The vector environment; its ``metadata["autoreset_mode"]`` says how it resets.
    """

    def __init__(self, env: Any) -> None:
        modes = require("gymnasium.vector", extra="gym").AutoresetMode
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, modes):
            raise InputError(
                Argument("env"),
                " needs metadata['autoreset_mode'] to say how it resets ended runs, got "
                f"{mode!r}; set it to a gymnasium.vector.AutoresetMode",
            )
        self._mode, self._modes = mode, modes
        self._waiting: BoolArray = np.zeros(env.num_envs, dtype=np.bool_)

    @property
    def same_step(self) -> bool:
        """Whether, when a run ends, the same row shows the next run's first observation."""
        return bool(self._mode is self._modes.SAME_STEP)

    def reset(self, options: dict[str, Any] | None) -> BoolArray:
        """(environments,): which environments begin a new run if ``reset`` gets these options."""
        # Call this before ``env.reset``, because environments remove the mask from the options.
        chosen = None if options is None else options.get("reset_mask")
        mask: BoolArray = np.ones(self._waiting.size, dtype=np.bool_)
        if chosen is not None:
            mask = np.array(chosen, dtype=np.bool_)
        self._waiting[mask] = False
        return mask

    def step(self, terminated: BoolArray, truncated: BoolArray) -> Rows:
        """What happened in each environment at this step: its run took a step, ended or began."""
        over = np.logical_or(terminated, truncated)
        if self.same_step:
            return Rows(np.ones_like(over), over, over)
        waiting = self._waiting
        moved = ~waiting
        ended = moved & over
        if self._mode is self._modes.NEXT_STEP:
            self._waiting = ended
            return Rows(moved, ended, waiting)
        self._waiting = waiting | ended
        return Rows(moved, ended, np.zeros_like(over))


def infos_of_rows(
    infos: Mapping[str, Any], names: Sequence[str], ended: BoolArray
) -> list[dict[str, Any]]:
    """For each environment, the values of these signals by name; missing ones are left out."""
    found: list[dict[str, Any]] = []
    for i, is_last in enumerate(ended.tolist()):
        own = infos.get("final_info", {}) if is_last else infos
        # Gymnasium marks under _name which environments reported a name.
        known = [
            name for name in names if name in own and (f"_{name}" not in own or own[f"_{name}"][i])
        ]
        found.append({name: own[name][i] for name in known})
    return found


def tell_inside(env: Any, environments: Sequence[int] | None = None) -> None:
    """Call ``intervene`` of the nearest inner wrapper that has this method."""
    while env is not None:
        if hasattr(type(env), "intervene"):
            env.intervene(*(() if environments is None else (environments,)))
            return
        env = getattr(env, "env", None)
