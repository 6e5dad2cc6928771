"""`Contract`: a monitor, a target or goal and an alarm rule, prepared once for all watches.

Many watches can share a contract, so making one more watch takes only microseconds. Answers about
recorded episodes come from the same compiled code, so they are the same, to the last bit, as those
of a watch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._package import internal
from ontarget._threads import run_blocks
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Translation
from ontarget.episodes.judged import Reading
from ontarget.errors import InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.kernels import KNOTS, NUMBERS, leave_out
from ontarget.fitted.law import NO_CURVE, Question
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._run_kernel import recall_rows
from ontarget.live.reasons import Reason, one_sided
from ontarget.live.rules import AlarmRule, Below, Trigger
from ontarget.live.runs import RunState, RunTable, admitted, stretches
from ontarget.models.base import LiveModel
from ontarget.models.entry import check_width, live_model
from ontarget.models.kernels import blend
from ontarget.target import Target

# Runs per piece of work: one thread answers a piece, then takes the next.
_BLOCK = 64


class Part:
    """One behavior of a contract, prepared for runs under way: it asks the models and answers."""

    def __init__(self, asked: Asked, rule: AlarmRule, triggers: Sequence[Trigger]) -> None:
        fitted, calibration = asked.fitted, asked.own_map
        self.fitted = fitted
        self.target = asked.targets[0][0]
        self.rule = rule
        behavior = fitted.behavior
        self.question = asked.questions[0]
        self.steps = _steps(fitted, calibration)
        self.scales: FloatArray = read_only(
            np.column_stack(
                [
                    np.fromiter(map(behavior.scale, range(fitted.horizon)), dtype=np.float64),
                    fitted.ahead,
                    fitted.pace * np.arange(fitted.horizon),
                ]
            )
        )
        facts = np.zeros(k.N_FACTS, dtype=np.int64)
        facts[k.HORIZON], facts[k.IS_DECLARED] = fitted.horizon, fitted.horizon_declared
        facts[k.TRANSLATION] = behavior.translation
        facts[k.IS_READ], facts[k.FORGETS] = behavior.told, behavior.forgets
        self.facts: IndexArray = read_only(facts)
        self.numbers: FloatArray = read_only(
            np.array([trigger.numbers for trigger in triggers], dtype=np.float64)
        )
        self.stored = (
            fitted.ranks.values,
            read_only(np.concatenate(fitted.sorted_excess)),
            NO_CURVE if fitted.curves is None else read_only(fitted.curves.values.reshape(-1)),
            NO_CURVE if calibration is None else read_only(calibration.values.reshape(-1)),
        )
        self.may_miss: BoolArray = read_only(fitted.may_miss)
        self.memory = fitted.history.blank(fitted.schema)  # of a run before its first state
        self._columns: Any = fitted.history.by_kind(fitted.schema)
        self.laws = _laws(fitted)
        different = {id(law): law for law in self.laws}
        weights = {one: read_only(np.array([w for w, _ in law])) for one, law in different.items()}
        self.weights = [weights[id(law)] for law in self.laws]
        # These are needed at every step, so they are looked up only once.
        self.behavior = behavior
        self.is_told = behavior.told
        self.reads_so_far = behavior.reads_so_far
        self.reads_step = fitted.reads_step
        self.guide = fitted.guide
        self.own_translation = behavior.translation is Translation.OWN
        self.own_rule = triggers[0].compared < 0
        self.one_sided = one_sided(asked)  # why p has nothing to learn from, by group
        self._warm_up()

    @internal
    def has_model(self, t: int, group: int) -> bool:
        """Whether a model answers at step t; if not, p is known only if it is exactly 0 or 1."""
        return not self.steps[t, group, k.UNKNOWN_CODE]

    @internal
    def table(self, n: int) -> RunTable:
        """An empty table for n runs, one row each, in the form that the compiled code reads."""
        return RunTable(self.behavior, n, self.memory)

    @internal
    def recall(
        self, table: RunTable, at: IndexArray, brought: FloatArray, states: FloatArray
    ) -> None:
        """Fill in the columns of ``states`` about the run so far; remember the new states."""
        if self.memory.size:
            recall_rows(
                table.memory,
                self.fitted.history.lags,
                at,
                np.where(table.whole[at, k.T] > 0, brought, np.nan),
                self._columns,
                states,
            )

    @internal
    def inputs(self, states: FloatArray, so_far: FloatArray, times: IndexArray) -> FloatArray:
        """(runs, numbers): what the models read about each run; ``times`` has each run's step."""
        columns = [states]
        if self.reads_so_far:
            columns.append(so_far[:, None])
        if self.reads_step:
            columns.append(times[:, None].astype(np.float64))
        X = np.concatenate(columns, axis=1) if len(columns) > 1 else np.ascontiguousarray(states)
        return X if self.guide is None else self.guide.appended(X)

    @internal
    def advancing(
        self,
        table: RunTable,
        at: IndexArray,
        brought: tuple[FloatArray, FloatArray],
        found: tuple[FloatArray, IndexArray],
    ) -> tuple[Any, ...]:
        """The arguments of `advance_rows`, which brings runs to their next step."""
        question = self.question
        return (
            (table.whole, table.real),
            at,
            *brought,
            self.steps,
            self.scales,
            self.facts,
            self.fitted.amounts,
            question.values,
            question.sides,
            question.first,
            self.may_miss,
            *found,
        )

    @internal
    def looking(
        self,
        table: RunTable,
        at: IndexArray,
        limits: tuple[FloatArray, FloatArray],
        question: Question | None = None,
    ) -> tuple[Any, ...]:
        """The arguments of `look_rows`, which writes the answers about runs."""
        return (
            (table.whole, table.real),
            at,
            self.stored,
            limits,
            self.steps,
            self.scales,
            self.facts,
            self.fitted.amounts,
            (question or self.question).components,
            self.numbers,
        )

    @internal
    def ask(
        self, t: int, inputs: FloatArray, ends: FloatArray, limits: tuple[FloatArray, FloatArray]
    ) -> None:
        """Predict what each run still earns from step t on, and write the result to ``limits``."""
        if not self.laws[t]:
            limits[0][:] = limits[1][:] = 0.0
            return
        if not ends.shape[1]:
            return
        if not self.fitted.impossible.size:
            self._ask(t, inputs, ends, limits)
            return
        # Remainders differ by as much as the outcomes that they lead to.
        apart = self.fitted.impossible - self.question.values[0]
        asked = np.column_stack([ends, snap(ends[:, :1] + apart, self.fitted.grid)])
        wide = np.empty_like(asked), np.empty_like(asked)
        self._ask(t, inputs, asked, wide)
        leave_out(asked, wide, limits)

    def _ask(
        self, t: int, inputs: FloatArray, ends: FloatArray, limits: tuple[FloatArray, FloatArray]
    ) -> None:
        entries = self.laws[t]
        if len(entries) == 1:
            entries[0][1].limits(inputs, ends, *limits)
            return
        found = np.empty((len(entries), 2, *ends.shape))
        for part, (_, live) in enumerate(entries):
            live.limits(inputs, ends, found[part, 0], found[part, 1])
        blend(found, self.weights[t], *limits)

    @internal
    def look_at_own(self, table: RunTable, row: int, inputs: FloatArray) -> None:
        """Write the answer for one run, if the behavior has its own ``translate`` method (M18)."""
        # `Behavior.translate` says what a run must still earn to meet its target. The compiled code
        # cannot call a method that a user wrote, so the method is called here, in Python.
        t, group = table.whole[row, [k.LAST_T, k.GROUP]].tolist()
        so_far = float(table.real[row, k.SNAPPED])
        question = self.fitted.at(t, group).translated(self.question, so_far)
        ends = question.values[None, :] * self.scales[t, 0]
        limits = np.empty_like(ends), np.empty_like(ends)
        self.ask(t, inputs, ends, limits)
        k.look_rows(*self.looking(table, np.array([row]), limits, question))

    @internal
    def ask_many(
        self,
        table: RunTable,
        at: IndexArray,
        states: FloatArray,
        ends: FloatArray,
        *,
        look: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Ask the models about the runs in rows ``at``, each at its own step, with all threads."""
        times = table.whole[at, k.LAST_T]
        # Runs at the same step come together, so that the step's data stay in the cache.
        order = np.argsort(times, kind="stable")
        at, states, ends, times = at[order], states[order], ends[order], times[order]
        left, right = np.empty_like(ends), np.empty_like(ends)
        inputs = self.inputs(states, table.real[at, k.SNAPPED], times)
        if look and self.own_translation:
            for i, row in enumerate(at.tolist()):
                self.look_at_own(table, row, inputs[i : i + 1])
            return left, right
        alone: list[tuple[int, slice]] = []  # for models that only one thread at a time may call
        shared: list[tuple[int, slice]] = []
        for a, b in stretches(self._law_numbers[times]):
            t = int(times[a])
            if all(live.takes_threads for _, live in self.laws[t]):
                shared += [(t, slice(c, min(c + _BLOCK, b))) for c in range(a, b, _BLOCK)]
            else:
                alone.append((t, slice(a, b)))

        def answer(pieces: list[tuple[int, slice]]) -> None:
            for t, here in pieces:
                limits = left[here], right[here]
                self.ask(t, inputs[here], ends[here], limits)
                if look:
                    k.look_rows(*self.looking(table, at[here], limits))

        answer(alone)
        # For a few runs, one thread is faster than waking the others.
        block = len(shared) if at.size <= _BLOCK else 1
        run_blocks(lambda a, b: answer(shared[a:b]), len(shared), block=block)
        back = np.argsort(order)
        return left[back], right[back]

    def _warm_up(self) -> None:
        """Run every compiled function that a step needs once, so that the first step is fast."""
        table, at = self.table(1), np.zeros(1, dtype=np.intp)
        news, ends = np.zeros((1, k.N_NEWS)), np.zeros((1, self.question.values.size))
        became, limits = np.zeros(1, dtype=np.int64), (ends.copy(), ends.copy())
        inputs = np.zeros((1, self.fitted.width))
        self.recall(table, at, became.astype(np.float64), inputs)
        k.advance_rows(*self.advancing(table, at, (news, inputs), (ends, became)))
        for number in np.unique(self._law_numbers).tolist():
            t = int(np.argmax(self._law_numbers == number))
            if self.laws[t]:
                self.ask(t, inputs, ends, limits)
        table.whole[0, k.LAST_T] = 0
        k.look_rows(*self.looking(table, at, limits))

    @property
    def _law_numbers(self) -> IndexArray:
        """(steps,): a number per step; steps with equal numbers share their mixture of models."""
        return self.fitted.law.numbers


_SILENT = Below(0.0)  # never raises an alarm: only the goal as a whole does


class Contract:
    """What a run is watched for: a fitted monitor, a target or goal, and an alarm rule.

    Parameters
    ----------
    asked
        The target or goal, asked of the fitted monitor.
    rule
        The alarm rule: when a run is in alarm.
    triggers
        The alarm rule as numbers to compare (`Trigger`), one per group of runs.
    readings
        For each behavior with a name, how it is computed and from which signal.

    Attributes
    ----------
    parts
        The contract's behaviors. A single behavior's answer is the answer. The parts of a goal over
        several behaviors never raise an alarm: only the goal does.
    """

    def __init__(
        self,
        asked: Asked,
        rule: AlarmRule,
        triggers: Sequence[Trigger],
        readings: Mapping[str, Reading] = MappingProxyType({}),
    ) -> None:
        self.asked, self.rule, self.triggers = asked, rule, tuple(triggers)
        self.readings = dict(readings)
        self.own_map = asked.own_map
        if asked.is_joint:
            silent = (_SILENT.trigger(None),) * asked.fitted.n_groups
            each = zip(asked.parts, asked.targets, strict=True)
            self.parts = tuple(
                Part(Asked(Joint.of(fitted), targets), _SILENT, silent) for fitted, targets in each
            )
            self.one_sided = one_sided(asked)
        else:
            self.parts = (Part(asked, rule, self.triggers),)
            self.one_sided = self.parts[0].one_sided
        self.own_rule = self.triggers[0].compared < 0
        self.numbers: FloatArray = read_only(
            np.array([trigger.numbers for trigger in self.triggers], dtype=np.float64)
        )
        self._warm_up()

    def __reduce__(self) -> tuple[Any, ...]:
        """Let unpickling call the constructor, which compiles all code before the first step."""
        return Contract, (self.asked, self.rule, self.triggers, self.readings)

    @property
    def fitted(self) -> Fitted:
        """The result of the first behavior's fit, for what all behaviors have in common."""
        return self.asked.fitted

    @property
    def target(self) -> Target | Goal:
        """The outcomes that a run should end in."""
        found = self.asked.target
        return found[0] if isinstance(found, tuple) else found

    @internal
    def admit(self, state: RunState) -> int:
        """The group number of a stored run."""
        if not self.asked.is_joint:
            return admitted(state, self.fitted, self.target, self.parts[0].memory.shape)
        if len(state.parts) != len(self.parts):
            raise InputError(
                f"a run watched for a goal over {', '.join(self.asked.names)} needs a state with "
                f"{len(self.parts)} parts, got {len(state.parts)}"
            )
        for part, own in zip(self.parts, state.parts, strict=True):
            admitted(own, part.fitted, part.target, part.memory.shape)
        return admitted(state, self.fitted, self.target)

    def _warm_up(self) -> None:
        """Make the arrays of every step that a goal needs, and run its compiled functions once."""
        asked = self.asked
        if asked.is_joint and not asked.is_function:
            for t, g in product(range(self.fitted.horizon), range(self.fitted.n_groups)):
                asked.step(t, g)
            ends = [np.zeros((1, one.values.size)) for one in asked.questions]
            limits, had = [(one, one.copy()) for one in ends], [np.zeros(1) for _ in ends]
            asked.step(0, 0).join(limits, had, asked.room(1), np.empty((1, NUMBERS)))


def _laws(fitted: Fitted) -> list[tuple[tuple[float, Any], ...]]:
    """For each step, its models and their weights, prepared for calls with a single run."""
    live: list[LiveModel | None] = []
    for block in fitted.blocks:
        model = fitted.models[block.index]
        if model is not None:
            check_width(model, fitted.width)  # here, because later calls check nothing
        live.append(None if model is None else live_model(model))
    shared: dict[int, tuple[tuple[float, Any], ...]] = {}
    found = []
    for t, number in enumerate(fitted.law.numbers.tolist()):
        if number not in shared:
            entries = [(weight, live[block]) for weight, block in fitted.law.at(t)]
            shared[number] = tuple(entries) if all(one for _, one in entries) else ()
        found.append(shared[number])
    return found


def _steps(fitted: Fitted, calibration: TargetMap | None) -> IndexArray:
    """(steps, groups, columns): what the compiled code needs to know about each step and group."""
    found = np.zeros((fitted.horizon, fitted.n_groups, k.N_STEP), dtype=np.int64)
    few = fitted.learned < fitted.min_calibration
    found[few, k.UNKNOWN_CODE] = Reason.FEW
    found[~fitted.trained_steps, :, k.UNKNOWN_CODE] = Reason.UNTRAINED
    found[:, :, k.COUNT], found[:, :, k.LEARNED] = fitted.counts, fitted.learned
    found[:, :, k.SPANS : k.SPANS + 2] = fitted.ranks.spans
    sizes = [own.size for own in fitted.sorted_excess]
    found[:, :, k.SPANS + 3] = np.cumsum(sizes)
    found[:, :, k.SPANS + 2] = found[:, :, k.SPANS + 3] - sizes
    if fitted.curves is not None:
        ends = np.arange(1, fitted.horizon * fitted.n_groups + 1).reshape(found.shape[:2])
        found[:, :, k.SPANS + 5] = ends * KNOTS.size
        found[:, :, k.SPANS + 4] = found[:, :, k.SPANS + 5] - KNOTS.size
    if calibration is not None:
        found[:, :, k.SPANS + 6 : k.SPANS + 8] = calibration.spans
    return read_only(found)
