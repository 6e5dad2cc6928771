"""`AlarmSetting`: how an alarm is set, in Python, by the commands and in the service."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from ontarget.errors import Argument, InputError

if TYPE_CHECKING:
    from ontarget.live.rules import AlarmRule

# As in `ontarget.conformal.levels`, which takes longer to load than a command's mistakes may take.
Level: TypeAlias = float | str | Fraction | Decimal
_USUAL = "0.05"  # the promised rate of false alarms if nothing else is asked for


@dataclass(frozen=True, kw_only=True)
class AlarmSetting:
    """How an alarm is set: its limit or its rate, how long it must last, how p is calibrated.

    Attributes
    ----------
    alarm_below, false_alarm_rate, ruled_out
        The alarm: p below a limit, a promised share of false alarms, or a target that is ruled out.
        Give one of the three; by default it is a false-alarm rate of 0.05.
    confidence, for_steps, clear_above, calibration
        As for `GoalMonitor.watch`.
    """

    alarm_below: float | None = None
    false_alarm_rate: Level | None = None
    ruled_out: Level | None = None
    confidence: Level | None = None
    for_steps: int = 1
    clear_above: float | None = None
    calibration: Literal["target", "common"] = "target"

    @property
    def rule(self) -> AlarmRule:
        """The alarm rule that is asked for."""
        # Loaded only now, because it takes time.
        from ontarget.conformal.levels import exact_level
        from ontarget.live.rules import RuledOut, rule_of

        if self.ruled_out is not None:
            for name in ("alarm_below", "false_alarm_rate", "clear_above"):
                if getattr(self, name) is not None:
                    raise InputError(
                        "pass ", Argument("ruled_out"), " or ", Argument(name), ", not both"
                    )
            exact_level(self.ruled_out, name="ruled_out", hint="0.05 allows one run in twenty")
            return RuledOut(self.ruled_out, self.for_steps, self.confidence)
        chosen = self.alarm_below is not None or self.false_alarm_rate is not None
        return rule_of(
            alarm_below=self.alarm_below,
            false_alarm_rate=self.false_alarm_rate if chosen else _USUAL,
            confidence=self.confidence,
            for_steps=self.for_steps,
            clear_above=self.clear_above,
        )
