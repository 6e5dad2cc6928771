"""Makes contracts (monitor, target and alarm rule together) and keeps the last few in memory.

It also keeps the monitor's answers about the assure episodes, the held-out episodes that promises
come from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from ontarget._typing import BoolArray, IndexArray
from ontarget.episodes.judged import Reading
from ontarget.errors import InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked, map_target
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.kernels import P
from ontarget.fitted.paths.bands import PathBands
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live.alarms import warn_of_one_side, warn_of_silence
from ontarget.live.answering import answer_episodes, rehearsed_answers
from ontarget.live.answers import Answers
from ontarget.live.contract import Contract
from ontarget.live.reasons import one_sided
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.target import Target

Kept = TypeVar("Kept")

_MOST_TARGETS = 4
_MOST_CONTRACTS = 8
_MOST_CHECKED = 1_000
# To see whether an alarm is ever raised, the last _LAST_STEPS steps of _FIRST failed episodes are
# tried first, then all steps of _A_FEW failed episodes; this is nearly always enough.
_A_FEW, _FIRST, _LAST_STEPS = 32, 4, 64
# Each step costs as much as this many more episodes at it.
_STEP_COST = 100


class Contracts:
    """Makes the contracts of one fitted monitor, and keeps the last few in memory."""

    def __init__(self, joint: Joint, readings: Mapping[str, Reading] | None = None) -> None:
        self.joint = joint
        self.readings = joint.readings if readings is None else readings
        self._lock = RLock()
        self._asked: OrderedDict[Hashable, Any] = OrderedDict()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._contracts: OrderedDict[Hashable, Any] = OrderedDict()
        self._maps: OrderedDict[Hashable, Any] = OrderedDict()
        self._checked: OrderedDict[Hashable, Any] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return Contracts, (self.joint, self.readings)

    @property
    def fitted(self) -> Fitted:
        """The result of the first behavior's fit, for what all behaviors have in common."""
        return self.joint.first

    @cached_property
    def paths(self) -> PathBands:
        """Bands of the path of a run, for a monitor of a single behavior."""
        return PathBands(self.fitted)

    @cached_property
    def parts(self) -> dict[str, Contracts]:
        """For each behavior, by name, the `Contracts` of the monitor for this behavior alone."""
        return {
            name: Contracts(Joint.of(self.joint.parts[name]), {name: reading})
            for name, reading in self.joint.readings.items()
        }

    def asked(self, target: Target | Goal, own_map: TargetMap | None = None) -> Asked:
        """The target, asked of this monitor; ``own_map`` corrects p for it alone."""
        return self._kept(
            self._asked,
            (target, own_map),
            _MOST_CONTRACTS,
            lambda: Asked(self.joint, target, own_map),
        )

    def check_sides(self, target: Target | Goal) -> None:
        """Raise a `TargetError` if rounding changes whether a recorded run meets the target."""
        self._kept(self._checked, target, _MOST_CHECKED, lambda: self.joint.check_sides(target))

    def map_of(self, target: Target | Goal) -> TargetMap | None:
        """The calibration curve for this target alone."""
        return self._kept(
            self._maps, target, _MOST_CONTRACTS, lambda: map_target(self.asked(target))
        )

    def of(
        self, target: Target | Goal, rule: AlarmRule, own_map: TargetMap | None = None
    ) -> Contract:
        """The contract for a target and an alarm rule, ready for watching runs."""
        return self._kept(
            self._contracts,
            (target, rule, own_map),
            _MOST_CONTRACTS,
            lambda: self._make(self.asked(target, own_map), rule),
        )

    def assured(
        self, target: Target | Goal, own_map: TargetMap | None = None, group: int = 0
    ) -> Answers:
        """The monitor's answers, at every step, about the assure episodes of one group."""
        fitted, asked = self.fitted, self.asked(target, own_map)

        def answers() -> Answers:
            observed = asked.observed
            return answer_episodes(asked, observed) if observed else rehearsed_answers(asked)

        found = self._kept(self._answers, (target, own_map), _MOST_TARGETS, answers)
        if fitted.only_measures and fitted.rehearsal is not None:
            groups = fitted.rehearsal.groups[: found.met.size]
            return found.take(np.flatnonzero(groups == group))
        own = np.flatnonzero(fitted.assure_groups[fitted.known_outcomes] == group)
        return replace(found.take(own), stopped=fitted.stopped[group])

    def recorded_met(self, target: Target | Goal) -> BoolArray | None:
        """Whether each assure (held-out) episode met the target; None if there are none."""
        asked = self.asked(target)
        observed = asked.observed
        return asked.contains([one.outcomes for one in observed]) if observed else None

    def one_sided(self, target: Target | Goal) -> tuple[str, ...]:
        """For each group, why p has nothing to learn from; empty if it has something."""
        return one_sided(self.asked(target))

    def triggers(
        self, target: Target | Goal, rule: AlarmRule, own_map: TargetMap | None = None
    ) -> tuple[Trigger, ...]:
        """For each group of runs: the alarm threshold of this rule, and what it promises."""
        if not rule.needs_assure or not self._has_episodes:
            return (rule.trigger(None),) * self.fitted.n_groups
        return tuple(
            rule.trigger(self.assured(target, own_map, g)) for g in range(self.fitted.n_groups)
        )

    def _make(self, asked: Asked, rule: AlarmRule) -> Contract:
        assert not isinstance(asked.target, tuple)
        triggers = self.triggers(asked.target, rule, asked.own_map)
        if asked.is_function and triggers[0].compared > P:
            raise InputError(
                f"a goal that is given by a function has p but no {rule.compared_name}; use an "
                f"alarm rule on p: Below or Promised"
            )
        contract = Contract(asked, rule, triggers, self.readings)
        self._listen(contract)
        # Reading the whole file took memory that a run does not need: give it back.
        for part in asked.parts:
            release = getattr(part.models, "release", None)
            if release is not None:
                release()
        return contract

    @property
    def _has_episodes(self) -> bool:
        """Whether the monitor keeps episodes from which an alarm threshold can be computed."""
        return self.fitted.assure is not None or self.fitted.rehearsal is not None

    def _listen(self, contract: Contract) -> None:
        """Warn if the alarm would not have been raised in any held-out (assure) episode."""
        warn_of_one_side(contract.one_sided)
        if not self._has_episodes or self._is_heard(contract):
            return
        for g, trigger in enumerate(contract.triggers):
            said = self.assured(contract.target, contract.own_map, g)
            warn_of_silence(contract.rule, trigger, said)

    def _is_heard(self, contract: Contract) -> bool:
        """Whether the alarm is raised in any of a few held-out episodes that missed the target."""
        met = self.recorded_met(contract.target)
        if met is None:
            return False
        missed = np.flatnonzero(~met)
        if not missed.size:
            return True
        for some in self._said_of_some(contract, missed[:_A_FEW]):
            if np.any(some.first_alarms(contract.rule, contract.triggers[0]) >= 0):
                return True
        return False

    def _said_of_some(self, contract: Contract, some: IndexArray) -> Iterator[Answers]:
        """The monitor's answers about the assure (held-out) episodes in ``some``."""
        asked, key = contract.asked, (contract.target, contract.own_map)
        if key not in self._answers:
            first = [one.take(some[:_FIRST]) for one in asked.observed]
            last = max(int(first[0].lengths.max()) - _LAST_STEPS, 0)
            yield answer_episodes(asked, first, since=last)
            few = [one.take(some) for one in asked.observed]
            if 2 * _cost(few[0].lengths) < _cost(asked.observed[0].lengths):
                yield answer_episodes(asked, few)
                return
            self.assured(*key)  # all episodes take hardly longer, and the result is cached
        yield self._answers[key].take(some)

    def _kept(
        self,
        kept: OrderedDict[Hashable, Any],
        key: Hashable,
        most: int,
        make: Callable[[], Kept],
    ) -> Kept:
        with self._lock:
            if key not in kept:
                kept[key] = make()
                while len(kept) > most:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            found: Kept = kept[key]
            return found


def _cost(lengths: IndexArray) -> int:
    """Roughly how long it takes to answer about episodes of these lengths at every step."""
    return int(lengths.sum()) + _STEP_COST * int(lengths.max())
