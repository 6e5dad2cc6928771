"""What records runs while they happen, and the policies that choose actions meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.censoring import Censored, all_taken_over, some_left_out
from ontarget.episodes.judged import JudgedBy, reading_of
from ontarget.errors import Argument, CensoredError, EpisodesError, InputError
from ontarget.integrations.environments import time_limit
from ontarget.reading.observations import ObservationLayout


class Actor(Protocol):
    """A policy in the form that `record` uses: it is told which runs begin, and returns actions."""

    def begin(self, starts: BoolArray) -> None:
        """Note which runs begin with the next observation; ``starts`` has a flag per run."""
        ...

    def __call__(self, observation: Any) -> Any:
        """The action for an observation, or the actions for a batch of them."""
        ...


class ModelPolicy:
    """A policy made from a model with Stable-Baselines3's ``predict``; recurrent models work too.

    Parameters
    ----------
    model
        An object whose ``predict(observation, state, episode_start, deterministic)`` returns the
        action and the next hidden state.
    deterministic
        Whether the model takes its most likely action; otherwise it draws one at random.
    normalize
        A function that prepares observations as in training, such as
        ``vec_normalize.normalize_obs``.

    Examples
    --------
    >>> class AlwaysLeft:
    ...     def predict(self, observation, state=None, episode_start=None, deterministic=False):
    ...         return 0, None
    >>> policy = ModelPolicy(AlwaysLeft())
    >>> policy(np.zeros(4))
    0
    """

    def __init__(
        self,
        model: Any,
        *,
        deterministic: bool = True,
        normalize: Callable[[Any], Any] | None = None,
    ) -> None:
        if not callable(getattr(model, "predict", None)):
            raise InputError(
                Argument("model"), f" needs a predict method, got {type(model).__name__}"
            )
        self.model = model
        self.deterministic = deterministic
        self.normalize = normalize
        self._hidden: Any = None
        self._starts: BoolArray = np.ones(1, dtype=np.bool_)

    def begin(self, starts: BoolArray) -> None:
        """Note which runs begin with the next observation; ``starts`` has a flag per run."""
        if starts.shape != self._starts.shape:
            self._starts = np.zeros(starts.shape, dtype=np.bool_)
        if starts.all():
            self._hidden = None
        self._starts = self._starts | starts

    def __call__(self, observation: Any) -> Any:
        """The model's action for an observation, or its actions for a batch of observations."""
        if self.normalize is not None:
            observation = self.normalize(observation)
        action, self._hidden = self.model.predict(
            observation,
            state=self._hidden,
            episode_start=self._starts,
            deterministic=self.deterministic,
        )
        self._starts = np.zeros_like(self._starts)
        return action


class _FunctionPolicy:
    """A policy made from a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._reset = getattr(function, "reset", None)

    def begin(self, starts: BoolArray) -> None:
        if self._reset is not None and starts.size == 1 and starts[0]:
            self._reset()

    def __call__(self, observation: Any) -> Any:
        return self._function(observation)


def actor_of(policy: Any) -> Actor:
    """The policy as an `Actor`, the form that `record` uses."""
    owner = getattr(policy, "__self__", policy)
    if callable(getattr(owner, "sample", None)) and callable(getattr(owner, "contains", None)):
        raise InputError(
            Argument("policy"),
            " needs a function from observation to action, got an action space; for random "
            "actions pass lambda seen: env.action_space.sample()",
        )
    if isinstance(policy, ModelPolicy):
        return policy
    if callable(getattr(policy, "predict", None)):
        return ModelPolicy(policy)
    if callable(policy):
        return _FunctionPolicy(policy)
    raise InputError(
        Argument("policy"),
        " needs a function from observation to action, or an object with "
        f"Stable-Baselines3's predict, got {type(policy).__name__}",
    )


class RecorderOptions(TypedDict, total=False):
    """The options that every recorder of runs takes."""

    horizon: int | None
    max_steps: int | None
    features: Sequence[str] | None
    categorical: Sequence[str]


def kept_options(options: RecorderOptions) -> RecorderOptions:
    """A copy of the options, which does not change if the caller's lists do."""
    lists = {name: tuple(one) for name, one in options.items() if isinstance(one, list)}
    return {**options, **lists}  # type: ignore[typeddict-item]  # the same names


def limited(options: RecorderOptions, env: Any) -> RecorderOptions:
    """The options, with the environment's time limit as the horizon if no horizon was passed."""
    given = options.get("horizon")
    return {**options, "horizon": time_limit(env) if given is None else given}


class _Finished(NamedTuple):
    """A finished run: its number, its slot (environment), states before actions, and rewards."""

    number: int
    slot: int
    states: AnyArray
    rewards: FloatArray
    values: FloatArray | None
    signals: dict[str, FloatArray]
    truncated: bool
    intervened: bool


class _Run:
    """A run that is being recorded and has not ended."""

    def __init__(self, number: int, first: AnyArray) -> None:
        self.number = number
        self.now = first
        self.states: list[AnyArray] = []
        self.rewards: list[float] = []
        self.values: list[float] = []
        self.signals: dict[str, list[float]] = {}
        self.intervened = False


class Recorder:
    """Collects several runs at the same time, one in each slot (environment)."""

    def __init__(
        self,
        layout: ObservationLayout,
        *,
        slots: int = 1,
        horizon: int | None = None,
        max_steps: int | None = None,
        features: Sequence[str] | None = None,
        categorical: Sequence[str] = (),
    ) -> None:
        if features is not None and len(features) != len(layout):
            raise InputError(
                Argument("features"),
                f" needs {len(layout)} names for {', '.join(layout.names)}, got {len(features)}",
            )
        self.layout = layout
        self.horizon = None if horizon is None else whole_number("horizon", horizon, least=1)
        self._most = None if max_steps is None else whole_number("max_steps", max_steps, least=1)
        names = layout.names if features is None else tuple(features)
        self._features = names
        unknown = [name for name in categorical if name not in names]
        if unknown:
            raise InputError(
                Argument("categorical"),
                f" needs names of features, got {unknown[0]!r}; there are {', '.join(names)}",
            )
        self._categorical = [
            name
            for own, name in zip(layout.names, names, strict=True)
            if own in layout.categorical or name in categorical
        ]
        self._runs: list[_Run | None] = [None] * slots
        self._finished: list[_Finished] = []
        self._started = 0

    def __len__(self) -> int:
        """The number of finished runs."""
        return len(self._finished)

    def begin(self, slot: int, row: AnyArray) -> None:
        """Begin a run with this state in a slot (environment)."""
        self._close(slot, truncated=True)
        self._runs[slot] = _Run(self._started, row)
        self._started += 1

    def step(
        self,
        slot: int,
        row: AnyArray,
        reward: float,
        *,
        terminated: bool,
        truncated: bool,
        value: float | None = None,
        signals: Mapping[str, float] | None = None,
    ) -> bool:
        """Record a step's reward and the state after it, in a slot (environment)."""
        run = self._runs[slot]
        if run is None:
            return True
        run.states.append(run.now)
        run.rewards.append(float(reward))
        if value is not None:
            run.values.append(float(value))
        for name, one in (signals or {}).items():
            run.signals.setdefault(name, []).append(one)
        run.now = row
        complete = len(run.states) in (self.horizon, self._most)
        if terminated or truncated or complete or run.intervened:
            self._close(slot, truncated=run.intervened or not terminated)
            return True
        return False

    def intervene(self, slot: int) -> None:
        """End the run in this slot (environment) here, because somebody takes it over."""
        # It does nothing if no run is going on. A run that was taken over at its start keeps its
        # first step, so that it counts as cut off.
        run = self._runs[slot]
        if run is not None:
            run.intervened = True
            if run.states:
                self._close(slot, truncated=True)

    def in_progress(self, slot: int) -> bool:
        """Whether a run is going on in this slot (environment)."""
        return self._runs[slot] is not None

    def episodes(
        self,
        *,
        behavior: JudgedBy = "sum",
        censored: Censored = "refuse",
        label: str = "",
    ) -> Episodes:
        """The finished runs, in the order in which they began."""
        if not self._finished:
            raise EpisodesError("no run is over yet; play at least one to its end")
        runs, note = _left_alone(self._finished, censored)
        runs.sort(key=lambda run: run.number)
        rewards: Any = [run.rewards for run in runs]
        told = is_told(behavior)
        values = [run.values for run in runs if run.values is not None]
        if values and not told:
            raise unread_value(behavior)
        if told and len(values) < len(runs):
            raise InputError(
                f"behavior {behavior!r} is not computed from rewards; when recording, pass "
                "behavior_value, a function of the observation and info that returns its value"
            )
        if runs[0].signals:
            named = {name: [run.signals[name] for run in runs] for name in runs[0].signals}
            rewards = {"reward": rewards, **named}
        found = Episodes.from_arrays(
            [run.states for run in runs],
            rewards,
            ids=[f"{label}{run.number}" if label else run.number for run in runs],
            truncated=[run.truncated for run in runs],
            horizon=self._judged_at(runs),
            behavior=behavior,
            behavior_values=values if told else None,
            features=self._features,
            categorical=self._categorical,
            censored=censored,
        )
        return Episodes(replace(found._store, remarks=(note,))) if note else found

    def _judged_at(self, runs: Sequence[_Finished]) -> int | None:
        """The horizon for the runs: the one passed, or None for the longest, if not cut."""
        # If no horizon was passed and one of the longest runs was cut off, the horizon is one step
        # more than its length. Otherwise that run would count as complete.
        cut = any(run.truncated and len(run.rewards) == self._most for run in runs)
        return self._most + 1 if self.horizon is None and self._most and cut else self.horizon

    def _close(self, slot: int, *, truncated: bool) -> None:
        run, self._runs[slot] = self._runs[slot], None
        if run is None or not run.states:
            return
        values = np.array(run.values) if run.values else None
        self._finished.append(
            _Finished(
                number=run.number,
                slot=slot,
                states=np.stack(run.states),
                rewards=np.array(run.rewards),
                values=values,
                signals={name: np.array(own) for name, own in run.signals.items()},
                truncated=truncated,
                intervened=run.intervened,
            )
        )


def _left_alone(runs: Sequence[_Finished], censored: Censored) -> tuple[list[_Finished], str]:
    """The runs to keep, and a remark about the runs that were left out."""
    n, kept = len(runs), [run for run in runs if not run.intervened]
    if censored != "refuse" or len(kept) == n:
        return list(runs), ""
    if not kept:
        raise CensoredError(all_taken_over(n))
    return kept, some_left_out(n - len(kept), n)


def is_told(behavior: JudgedBy) -> bool:
    """Whether a behavior is not computed from rewards, so that the caller must pass its value."""
    return not isinstance(behavior, Mapping) and reading_of(behavior).behavior.told


def unread_value(behavior: JudgedBy) -> InputError:
    """The error for a ``behavior_value`` that the behavior does not need."""
    return InputError(
        Argument("behavior_value"),
        f" needs a behavior that reads it, got behavior {behavior!r}, which is "
        f"computed from rewards; pass behavior='column:NAME' with a name for that value",
    )


def shares(count: int, n: int) -> IndexArray:
    """How many of ``count`` runs each of n environments plays: as equal numbers as possible."""
    found: IndexArray = np.full(n, count // n) + (np.arange(n) < count % n)
    return found


def signals_in(info: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """The values of these signals in a step's ``info``; an error names a missing signal."""
    missing = [name for name in names if name not in info]
    if missing:
        known = ", ".join(map(str, info)) or "nothing"
        raise InputError(
            Argument("signals"),
            f" needs keys of info, got {missing[0]!r}, but info has {known}; add it in every step",
        )
    return {name: float(info[name]) for name in names}
