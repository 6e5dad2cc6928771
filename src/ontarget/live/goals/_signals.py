"""Finds, in a live call, the number (signal) that each behavior is computed from.

It is the reward, or a value under another name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ontarget._scalars import shown
from ontarget._typing import ArrayLike
from ontarget.episodes.judged import Reading
from ontarget.live import _run_kernel as k
from ontarget.live.contract import Contract
from ontarget.live.outlook import Outlook, Status
from ontarget.live.watch import OnBad, Watch


def standing_of(whole: list[int]) -> tuple[int, bool, int, bool]:
    """A run's group number, whether it is in alarm, since which step, and whether it is over."""
    return whole[k.GROUP], bool(whole[k.ALARMED]), whole[k.SINCE], bool(whole[k.ENDED])


class _Missing:
    """Takes the place of a signal that the caller did not pass.

    The reason for the run's status then says "no signal NAME".
    """

    def __init__(self, signal: str) -> None:
        self._signal = signal

    def __repr__(self) -> str:
        return f"no signal {self._signal!r}"


class _Unnamed:
    """Takes the place of values of behaviors that the caller did not pass by name.

    The reason for the run's status then says so.
    """

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"{shown(self._value)}, not {{name: number}}"


def news_of(
    name: str,
    reading: Reading,
    reward: Any,
    behavior: Any,
    *,
    begun: bool,
) -> tuple[Any, Any]:
    """The reward and the behavior so far that the caller passed for the behavior ``name``.

    The second is None if the behavior is to be computed from the first. ``reward`` and ``behavior``
    are the arguments of `GoalWatch.step`. ``reading`` says which signal the behavior is computed
    from. ``begun`` says whether the run has had a step.
    """
    if behavior is not None:
        if not isinstance(behavior, Mapping):
            return 0.0, _Unnamed(behavior)
        if name in behavior:
            return 0.0, behavior[name]
    signal = reading.column or "reward"
    missing = _Missing(signal) if begun else 0.0  # at the first step there is no signal yet
    found: Any = missing
    if isinstance(reward, Mapping):
        found = reward.get(signal, reward.get(name, missing))
    elif reading.column is None:
        found = reward
    if not reading.behavior.told:
        return found, None
    return 0.0, found if begun else None


class SignalWatch(Watch):
    """A watch for one of several behaviors.

    In each call it finds the signal (the reward or a named column) that this behavior is computed
    from.
    """

    __slots__ = ("_name", "_reading")

    def __init__(
        self,
        contract: Contract,
        name: str = "",
        reading: Reading | None = None,
        *,
        group: int = 0,
        on_bad: OnBad = "unknown",
    ) -> None:
        self._name, self._reading = name, reading or Reading(contract.behavior)
        super().__init__(contract, group=group, on_bad=on_bad)

    @property
    def parts(self) -> dict[str, Outlook]:
        """The answer about the run (`Outlook`), as a dictionary under the behavior's name."""
        return {self._name: self.peek()}

    @property
    def standing(self) -> tuple[int, bool, int, bool]:
        """The run's group number, whether it is in alarm, since which step, whether it is over."""
        return standing_of(self._whole)

    def pack(self) -> bytes:
        """The state of the run as bytes, from which another watch can continue it exactly."""
        return json.dumps(self.run_state.to_json()).encode()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "name": self._name, "reading": self._reading}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        named = kept.pop("name"), kept.pop("reading")
        super().__setstate__(kept)
        self._name, self._reading = named

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: Any = 0.0,
        *,
        behavior: Any = None,
    ) -> Outlook:
        """The monitor's answer about the run (`Outlook`) before acting at this step.

        The arguments are those of `GoalWatch.step`.
        """
        reward, behavior = self._brought(reward, behavior)
        return super().step(state, reward, behavior=behavior)

    def end(self, reward: Any = 0.0, *, behavior: Any = None, truncated: bool = False) -> Outlook:
        """End the run before the horizon; returns the last answer. See `Watch.end`."""
        reward, behavior = self._brought(reward, behavior)
        return super().end(reward, behavior=behavior, truncated=truncated)

    def _brought(self, reward: Any, behavior: Any) -> tuple[Any, Any]:
        if not isinstance(reward, Mapping) and not isinstance(behavior, Mapping):
            return reward, behavior
        begun = self.status is not Status.PENDING
        return news_of(self._name, self._reading, reward, behavior, begun=begun)
