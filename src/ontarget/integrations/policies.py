"""Policies that choose actions: a function of the observation, or a model with ``predict``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ontarget._typing import BoolArray
from ontarget.errors import Argument, InputError


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
