"""The reasons for a run's status: the codes that compiled code writes, and texts for them."""

from __future__ import annotations

from enum import IntEnum

from ontarget.fitted.fitted import Fitted

__all__ = ["OVER", "Reason", "in_words", "past"]


OVER = "the run is over; call reset to begin another"


class Reason(IntEnum):
    """The codes of the reasons for a run's status.

    Two numbers with details are stored beside each code.
    """

    NONE = 0
    WAITING = 1
    ALARM = 2  # what was compared, and the threshold
    DECIDED = 3  # the behavior so far
    ENDED = 4  # whether inside, and the outcome
    UNTRAINED = 5
    FEW = 6  # how many episodes calibrate p
    OVER = 7
    UNBEGUN = 8
    EARLY = 9  # the reward
    BAD_REWARD = 10  # the reward, the step
    BAD_BEHAVIOR = 11  # the value
    NOT_TOLD = 12
    LOST = 13
    OUT_OF_BOUNDS = 14  # the reward, the step
    BAD_FEATURE = 15  # which feature, its value
    TEXT = 16  # in words of its own
    PAST = 17  # the longest run seen
    CUT_OFF = 18  # after how many steps


def past(longest: int) -> str:
    """The reason, as text, why nothing is known about a run longer than every learning run.

    See method M18 in docs/methods.md.
    """
    return (
        f"the run is longer than the longest run learned from ({longest} steps), and no horizon "
        "was declared; end the run when it is over"
    )


def in_words(
    code: int,
    details: tuple[float, float],
    fitted: Fitted,
    *,
    compares: tuple[str, str] = ("p", "below"),
    text: str = "",
) -> str:
    """The reason for a run's status, as text.

    Parameters
    ----------
    code
        The code of the reason, one of `Reason`.
    details
        The two numbers stored beside the code.
    fitted
        The result of the monitor's fit, for names of features and behaviors.
    compares
        Which number the alarm rule compares, and how, such as ``("p", "below")``.
    text
        What was wrong with a state or reward, for a reason without a code.
    """
    one, other = details
    match code:
        case Reason.WAITING:
            return "waiting for the first state"
        case Reason.ALARM:
            return f"{compares[0]} = {one:.3g}, alarm {compares[1]} {other:.3g}"
        case Reason.DECIDED:
            return f"the target is out of reach with {fitted.label} at {one + 0.0:.6g}"
        case Reason.ENDED:
            # Adding 0 turns -0 into 0.
            return f"ended {'inside' if one else 'outside'} the target at {other + 0.0:.6g}"
        case Reason.UNTRAINED:
            return "no model was fitted for this step"
        case Reason.FEW:
            return (
                f"{one:.0f} {fitted.calibrated_by} episodes reach this step, fewer than "
                f"{fitted.min_calibration}"
            )
        case Reason.OVER:
            return OVER
        case Reason.UNBEGUN:
            return "the run ended before its first step"
        case Reason.EARLY:
            return f"nothing is earned before the first step, so its reward is 0, got {text or one}"
        case Reason.BAD_REWARD:
            return f"reward needs a number, got {text or one} at step {other:.0f}"
        case Reason.BAD_BEHAVIOR:
            return f"behavior needs a number, got {text or one}"
        case Reason.NOT_TOLD:
            return (
                f"behavior {fitted.behavior.spec!r} is not computed from rewards: pass its value "
                "as behavior="
            )
        case Reason.LOST:
            return "the behavior so far is unknown"
        case Reason.OUT_OF_BOUNDS:
            low, high = fitted.reward_bounds
            return (
                f"reward {one:g} at step {other:.0f} is outside the declared bounds ({low:g}, "
                f"{high:g}), so nothing can be said about this run"
            )
        case Reason.PAST:
            return past(fitted.horizon)
        case Reason.CUT_OFF:
            steps = "1 step" if one == 1.0 else f"{one:.0f} steps"
            early = f", before the monitor's horizon of {fitted.horizon}"
            early *= one < fitted.horizon
            return f"the run was cut off after {steps}{early}, so its outcome is unknown"
        case Reason.BAD_FEATURE:
            return fitted.feature_in_words(int(one), other)
    return text
