"""Why a watched run is in the state it is in: the words that a watch and a fleet share."""

from __future__ import annotations

from ontarget.episodes import Behavior

__all__ = [
    "BEHAVIOR_LOST",
    "ENDED_UNBEGUN",
    "OVER",
    "alarm",
    "bad_behavior",
    "bad_reward",
    "earned_early",
    "ended",
    "not_told",
]

OVER = "the run is over; reset begins another"
ENDED_UNBEGUN = "the run ended before its first step"
BEHAVIOR_LOST = "the behavior so far is unknown"


def alarm(p: float, threshold: float) -> str:
    """A run whose probability fell too low."""
    return f"p = {p:.3g}, alarm below {threshold:.3g}"


def ended(met: bool, outcome: float) -> str:
    """A run that is done."""
    return f"ended {'inside' if met else 'outside'} the target at {outcome + 0.0:.6g}"  # never -0


def earned_early(reward: object) -> str:
    """A reward at the first call, which is before the first action."""
    return f"nothing is earned before the first step, got reward {reward!r}"


def bad_reward(reward: object, t: int) -> str:
    """A reward that is no number."""
    return f"reward needs a number, got {reward!r} at step {t}"


def bad_behavior(value: object) -> str:
    """A behavior so far that is no number."""
    return f"behavior needs a number, got {value!r}"


def not_told(behavior: Behavior) -> str:
    """A behavior that cannot be computed from rewards, and was not passed."""
    return f"behavior {behavior.spec!r} is read, not summed: pass behavior="
