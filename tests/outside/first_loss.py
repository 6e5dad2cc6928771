"""A behavior of a user's own, in one short file: the first step that loses more than allowed."""

import math
from dataclasses import dataclass

from ontarget import Target
from ontarget.episodes import Behavior


@dataclass(frozen=True)
class FirstLoss(Behavior):
    """The step of the first reward below a limit; the number of steps if there is none."""

    limit: float = -0.3
    steps: int = 6

    def start(self):
        return (False, float(self.steps))

    def update(self, state, reward, t):
        lost, _ = state
        return state if lost or reward >= self.limit else (True, float(t))

    def value(self, state):
        return state[1]

    def translate(self, target, so_far, t, grid=None):
        everything = Target(-math.inf, math.inf)
        if so_far < self.steps:  # it has happened, so it is decided
            return everything if target.contains(so_far) else Target.empty()
        later = Target.at_least(t)  # it can only come at this step or later
        return everything if target & later == later else target & later
