"""A behavior with a structured state, in one short file: the median reward."""

from bisect import insort
from statistics import median

from ontarget.episodes import Behavior


class RunningMedian(Behavior):
    def start(self):
        return ()

    def update(self, state, reward, t):
        rewards = list(state)
        insort(rewards, float(reward))
        return tuple(rewards)

    def value(self, state):
        return median(state) if state else float("nan")
