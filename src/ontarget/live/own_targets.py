"""Watches runs that each have their own target, like deliveries that each have a deadline.

The alarm threshold comes from the assure episodes (held out for promises), each judged by its own
target. Promises hold on average over pairs of a run and its target that are like the recorded
pairs, not for each target by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from threading import RLock

import numpy as np

from ontarget._typing import ArrayLike, BoolArray
from ontarget.episodes import Episodes
from ontarget.errors import Argument, FewEpisodesError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.goal import Goal
from ontarget.live.answering import answer_episodes
from ontarget.live.answers import Answers, Sheet
from ontarget.live.contract import Contract
from ontarget.live.outlook import Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.watch import OnBad, Watch
from ontarget.target import Target

_MOST_CONTRACTS = 64


class OwnTargets:
    """The alarms and promises of a monitor for runs that each have their own target."""

    def __init__(self, fitted: Fitted, rule: AlarmRule) -> None:
        self.fitted, self.rule = fitted, rule
        groups = range(fitted.n_groups)
        if rule.needs_assure:
            self.triggers: tuple[Trigger, ...] = tuple(
                rule.trigger(self.assured(g)) for g in groups
            )
        else:
            self.triggers = (rule.trigger(None),) * len(groups)
        self._lock = RLock()
        self._contracts: OrderedDict[Target, Contract] = OrderedDict()

    def assured(self, group: int) -> Answers:
        """The monitor's answers about one group's assure (held-out) episodes."""
        fitted, (found, aimed) = self.fitted, self._answers
        groups = fitted.assure_groups[fitted.known_outcomes]
        own = np.flatnonzero(aimed & (groups == group))
        return replace(found.take(own), stopped=fitted.stopped[group])

    @cached_property
    def _answers(self) -> tuple[Answers, BoolArray]:
        observed = self.fitted.observed
        targets = None if observed is None else observed.targets
        if observed is None or targets is None:
            raise FewEpisodesError(
                "targets that differ from run to run need assure episodes with a target each; fit "
                "on episodes.aimed(targets), or read the log with target=COLUMN"
            )
        return answer_own(self.fitted, observed)

    def contract(self, target: Target) -> Contract:
        """The contract (monitor, target and alarm rule) for runs with this target."""
        if not isinstance(target, Target):
            raise InputError(
                Argument("target"),
                f" needs a Target, got {target!r}; Target.at_least(60) makes one",
            )
        with self._lock:
            if target not in self._contracts:
                self.fitted.check_sides(target)
                asked = Asked(Joint.of(self.fitted), target)
                made = Contract(asked, self.rule, self.triggers)
                self._contracts[target] = made
                while len(self._contracts) > _MOST_CONTRACTS:
                    self._contracts.popitem(last=False)
            self._contracts.move_to_end(target)
            return self._contracts[target]


def answer_own(fitted: Fitted, episodes: Episodes) -> tuple[Answers, BoolArray]:
    """The monitor's answers about episodes, each judged by its own target."""
    n, targets = len(episodes), episodes.targets
    assert targets is not None  # the callers have checked this
    sheet, met = Sheet(episodes.lengths, fitted.horizon), np.zeros(n, dtype=np.bool_)
    places: dict[Target, list[int]] = {}
    for i, target in enumerate(targets):
        if target is not None:
            places.setdefault(target, []).append(i)
    for target, own in places.items():
        asked = Asked(Joint.of(fitted), target)
        found = answer_episodes(asked, asked.alike(episodes.take(own)))
        sheet.put_all(np.array(own), found)
        met[own] = found.met
    aimed = np.array([target is not None for target in targets])
    return sheet.answers(met), aimed


class OwnWatch:
    """Follows one run after the other, each with its own target; see `GoalMonitor.watch_own`.

    `reset` begins a run and takes the run's target, which must be fixed before the run begins.
    """

    def __init__(self, own: OwnTargets, *, group: int = 0, on_bad: OnBad = "unknown") -> None:
        self._own, self._group, self._on_bad = own, group, on_bad
        self._watch: Watch | None = None

    def reset(self, target: Target) -> None:
        """Begin a new run, whose outcome should be inside this target."""
        contract = self._own.contract(target)
        self._watch = Watch(contract, group=self._group, on_bad=self._on_bad)

    @property
    def _running(self) -> Watch:
        if self._watch is None:
            raise InputError("no run has begun; call reset(target) with the run's own target first")
        return self._watch

    @property
    def target(self) -> Target | Goal:
        """The outcomes that the present run should end in."""
        return self._running.target

    @property
    def trigger(self) -> Trigger:
        """The alarm threshold, which is the same for all targets, and what it promises."""
        return self._own.triggers[self._group]

    @property
    def status(self) -> Status:
        """The run's status now."""
        return Status.PENDING if self._watch is None else self._watch.status

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float = 0.0,
        *,
        behavior: float | None = None,
    ) -> Outlook:
        """The monitor's answer about the run (`Outlook`) before acting; see `Watch.step`."""
        return self._running.step(state, reward, behavior=behavior)

    def end(
        self, reward: float = 0.0, *, behavior: float | None = None, truncated: bool = False
    ) -> Outlook:
        """End the run before the horizon; returns the last answer. See `Watch.end`."""
        return self._running.end(reward, behavior=behavior, truncated=truncated)

    def peek(self) -> Outlook:
        """The present answer about the run (`Outlook`) again; the run takes no step."""
        return self._running.peek()
