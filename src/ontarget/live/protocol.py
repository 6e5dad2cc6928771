"""The JSON of runs under way, which `ontarget watch` and the service share.

A message has the fields ``state``, ``reward``, ``signals``, ``behavior``, ``group``, ``end``,
``truncated`` and ``intervened``; null stands for what is unknown. An answer has those of `Outlook`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ontarget.live.outlook import Outlook


def reading(sent: Any) -> Any:
    """A state or signals of a message, with NaN in place of null, as a watch takes them."""
    if isinstance(sent, Mapping):
        if None not in sent.values():
            return sent
        return {name: math.nan if one is None else one for name, one in sent.items()}
    return [math.nan if one is None else one for one in sent] if isinstance(sent, list) else sent


def earned(reward: Any, signals: Any = None, *, first: bool) -> Any:
    """What a message says was earned: a number or, if behaviors have names, each signal by name."""
    if reward is None:  # unknown; but before the first step of a run nothing is earned
        reward = 0.0 if first else math.nan
    if not isinstance(signals, Mapping):
        return reward
    return reading({**signals, **(reward if isinstance(reward, Mapping) else {"reward": reward})})


def is_last(message: Mapping[str, Any]) -> bool:
    """Whether a message ends its agent's run: the run came to its end, or was cut off."""
    return bool(message.get("end") or message.get("truncated"))


def is_taken_over(message: Mapping[str, Any]) -> bool:
    """Whether a message says that somebody takes the run over."""
    return bool(message.get("intervened") or message.get("intervene"))  # the name in 0.2


def fields_of(outlook: Outlook) -> dict[str, Any]:
    """What every answer says, with null where a number is unknown; no reason if there is none."""
    found = outlook._asdict() | {
        "spread": list(outlook.spread) if outlook.known else None,
        "status": outlook.status.name,
    }
    del found["t"]  # the service calls it the step
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in found.items()
        if value or name != "reason"
    }
