"""The methods of a monitor that follow live runs: one run, many runs, named agents; and alarms."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Unpack

from ontarget.conformal.levels import Level
from ontarget.errors import Argument, InputError
from ontarget.goal import Goal
from ontarget.live.alarms import PromisedAlarms, promised_alarms
from ontarget.live.contract import Contract
from ontarget.live.fleet import FleetWatch
from ontarget.live.own_targets import OwnTargets, OwnWatch
from ontarget.live.rules import rule_of
from ontarget.live.sessions import Sessions
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor._asking import Asking
from ontarget.monitor._held import AlarmOptions, Calibration, checked_options
from ontarget.target import Target


class Watching(Asking):
    """The methods of a fitted `GoalMonitor` that follow live runs."""

    def watch(
        self,
        target: Target | Goal | None = None,
        *,
        group: Any = None,
        on_bad: OnBad = "unknown",
        **alarm: Unpack[AlarmOptions],
    ) -> Watch:
        """A watch that follows one run live.

        This call opens all models and compiles all code, so that the first `step` is fast.

        Parameters
        ----------
        target
            The outcomes that the run should end in. With a monitor of several behaviors, a goal;
            steps then take a mapping of signals as the reward. By default the target named at
            `fit`.
        group
            The run's group, if the monitor is calibrated by group.
        on_bad
            What a bad reading (a state or reward that is missing or cannot be read) does:
            ``"unknown"`` gives the status UNKNOWN, ``"raise"`` raises an error.
        **alarm
            When to raise an alarm. ``alarm`` is a rule such as ``Below(0.9)``, ``Promised(0.05)``
            or ``RuledOut(0.05)``. Instead of a rule you can pass ``alarm_below``, a threshold for p
            (0.9 by default); or ``false_alarm_rate``, the highest allowed probability that a run
            which meets its target raises any alarm (method M8 in docs/methods.md). This rate is
            promised if the monitor has assure episodes, and only measured if it has none. With them
            you can pass ``confidence``: with 0.95, the rate holds for at least 95 in 100 of the
            sets of assure episodes that might have been recorded, and not only on average over
            these sets (method M20). You can also pass ``for_steps``, how many steps in a row p must
            stay below the threshold; and ``clear_above``, the p at which an alarm ends.

            ``calibration`` says how p is calibrated. ``"target"``, the default: corrected for this
            one target. ``"common"``: in the same way for all targets, so that watches on several
            targets never contradict each other.
        """
        number = self._shared.group_of(group)
        return Watch(self._contract_of(target, alarm), group=number, on_bad=on_bad)

    def watch_own(
        self, *, group: Any = None, on_bad: OnBad = "unknown", **alarm: Unpack[AlarmOptions]
    ) -> OwnWatch:
        """A watch for runs that each have their own target; `reset` of the watch takes the target.

        The assure episodes (held out for promises) need targets: fit on `Episodes.aimed`, or read
        the log with ``target=COLUMN``.

        Parameters
        ----------
        group, on_bad
            As for `watch`.
        **alarm
            As for `watch`, but without ``calibration``: p is always calibrated in the same way for
            all targets.

        Notes
        -----
        A promised false-alarm rate holds on average over pairs of a run and its target that are
        like the recorded pairs. For easy targets alone the rate may be far lower, and for hard
        targets far higher; calibrate by groups to promise it for each group. The promise no longer
        holds if the mix of targets differs from the recording, or if a target is chosen after
        looking at the run.
        """
        fitted = self.fitted
        rest = checked_options(alarm)
        if rest.pop("calibration", "common") != "common":
            raise InputError(
                Argument("calibration"),
                " needs 'common' if targets differ from run to run, got "
                f"{alarm['calibration']!r}; leave it out",
            )
        own = OwnTargets(fitted, rule_of(**rest))
        return OwnWatch(own, group=fitted.group_of(group), on_bad=on_bad)

    def fleet(
        self,
        target: Target | Goal | None = None,
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
        **alarm: Unpack[AlarmOptions],
    ) -> FleetWatch:
        """A watch that follows many runs live, with one call per step for all of them.

        Parameters
        ----------
        target
            The outcomes that every run should end in. With a monitor of several behaviors, a goal;
            by default the target named at `fit`.
        agents
            How many agents there are, or their names; more may join later.
        groups
            One group for all agents, or one per agent, if the monitor is calibrated by group.
        **alarm
            As for `watch`.
        """
        return FleetWatch(self._contract_of(target, alarm), agents, groups=groups)

    def sessions(
        self,
        target: Target | Goal | None = None,
        *,
        max_agents: int = 10_000,
        idle_seconds: float | None = None,
        **alarm: Unpack[AlarmOptions],
    ) -> Sessions:
        """Watches for agents that come and go; each agent is known by its name. See `Sessions`.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor, Target
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(300, 3, 1)), rng.normal(size=(300, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.1)
        >>> sessions.answer({"agent": "left", "state": [0.1]})["status"]
        'OK'
        """
        contract = self._contract_of(target, alarm)
        return Sessions(contract, max_agents=max_agents, idle_seconds=idle_seconds)

    def _contract_of(self, target: Target | Goal | None, alarm: AlarmOptions) -> Contract:
        """The contract for a target: the target and an alarm rule, prepared for watching runs."""
        alone, wanted, _ = self._narrowed(target)
        return alone._contract(wanted, alarm)

    def alarm_curve(
        self,
        target: Target | Goal | None = None,
        *,
        rates: Sequence[Level] | None = None,
        for_steps: int = 1,
        confidence: Level = 0.95,
        group: Any = None,
        calibration: Calibration = "target",
    ) -> PromisedAlarms:
        """For each promised false-alarm rate: the alarm threshold, failures found, and lead times.

        All are measured on the assure episodes (held out for promises). A rate that you pick from
        this table after looking is optimistic, because the same assure episodes were used to pick
        it. ``rate_at_most`` is not optimistic: with the given confidence, it bounds the rates of
        all rows at once (method M20). If there are no assure episodes, the learning episodes are
        used instead, and the rates are measured, not promised. See method M8 in docs/methods.md.
        """
        alone, wanted, _ = self._narrowed(target)
        own_map, number = alone._map(wanted, calibration), self._shared.group_of(group)
        assured = alone.contracts.assured(wanted, own_map, number)
        return promised_alarms(assured, rates=rates, for_steps=for_steps, confidence=confidence)
