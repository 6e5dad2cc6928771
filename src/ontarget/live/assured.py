"""Contracts made and kept: what the assure episodes say of a target, asked once per target."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from ontarget.errors import FewEpisodesError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live.alarms import warn_of_silence
from ontarget.live.batch import Answers, answer_episodes
from ontarget.live.contract import Contract
from ontarget.live.rules import NO_ASSURE, AlarmRule, Trigger
from ontarget.target import Target

__all__ = ["Contracts"]

Kept = TypeVar("Kept")

_MOST_TARGETS = 4
_MOST_CONTRACTS = 8
# So many failed episodes nearly always hold one that an alarm would have caught.
_A_FEW = (4, 32)


class Contracts:
    """The contracts of one fitted monitor, the last few kept; any thread may ask.

    Parameters
    ----------
    fitted
        The monitor's contents.
    """

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        self._lock = RLock()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._contracts: OrderedDict[Hashable, Any] = OrderedDict()

    def of(
        self, target: Target, rule: AlarmRule, calibration: TargetCalibration | None = None
    ) -> Contract:
        """The contract over a target with an alarm rule; making it again costs microseconds."""
        return self._kept(
            self._contracts,
            (target, rule, calibration),
            _MOST_CONTRACTS,
            lambda: self._make(target, rule, calibration),
        )

    def assured(
        self, target: Target, calibration: TargetCalibration | None = None, group: int = 0
    ) -> Answers:
        """What the monitor says of the group's assure episodes at every step."""
        assure = self.fitted.assure
        if assure is None:
            raise FewEpisodesError(NO_ASSURE)
        answers: Answers = self._kept(
            self._answers,
            (target, calibration),
            _MOST_TARGETS,
            lambda: answer_episodes(self.fitted, assure, target, calibration=calibration),
        )
        return answers.take(np.flatnonzero(self.fitted.assure_groups == group))

    def triggers(
        self, target: Target, rule: AlarmRule, calibration: TargetCalibration | None = None
    ) -> tuple[Trigger, ...]:
        """The rule as data, for each group."""
        if not rule.needs_assure or self.fitted.assure is None:
            return (rule.trigger(None),) * self.fitted.n_groups
        return tuple(
            rule.trigger(self.assured(target, calibration, g)) for g in range(self.fitted.n_groups)
        )

    def _make(
        self, target: Target, rule: AlarmRule, calibration: TargetCalibration | None
    ) -> Contract:
        triggers = self.triggers(target, rule, calibration)
        contract = Contract(self.fitted, target, rule, triggers, calibration)
        self._listen(contract)
        # All of a file was read to check it; a run needs little of that at a time.
        release = getattr(self.fitted.models, "release", None)
        if release is not None:
            release()
        return contract

    def _listen(self, contract: Contract) -> None:
        """Warn of a rule that stays silent on all assure episodes; a few failed ones come first."""
        fitted, target = self.fitted, contract.target
        if fitted.assure is None:
            return
        missed = np.flatnonzero(~target.contains(fitted.assure.outcomes, fitted.grid))
        if not missed.size:
            return
        for few in _A_FEW:
            some = answer_episodes(
                fitted, fitted.assure.take(missed[:few]), target, calibration=contract.calibration
            )
            if np.any(some.first_alarms(contract.rule, contract.triggers[0]) >= 0):
                return
        for g, trigger in enumerate(contract.triggers):
            warn_of_silence(contract.rule, trigger, self.assured(target, contract.calibration, g))

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
