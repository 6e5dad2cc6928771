"""Two alarm rules of a user's own, in one short file: one as data, one in Python."""

import math
from dataclasses import dataclass

from ontarget import AlarmRule
from ontarget.fitted.kernels import HIGH
from ontarget.live import Trigger


@dataclass(frozen=True)
class CannotBeHigh(AlarmRule):
    """Alarm where even the upper bound of the probability lies below a threshold."""

    threshold: float = 0.4
    compared_name = "high"

    def trigger(self, assured):
        return Trigger(HIGH, self.threshold, math.inf, 1, self.threshold)


@dataclass(frozen=True)
class NeitherNor(AlarmRule):
    """Alarm where nothing can be said either way, and the run is past a step."""

    after: int = 2

    def alarming(self, outlook):
        return outlook.t >= self.after and 0.3 < outlook.p < 0.7


@dataclass(frozen=True)
class Latched(NeitherNor):
    """The same, and an alarm stays on until p is high."""

    def clearing(self, outlook):
        return outlook.p > 0.9
