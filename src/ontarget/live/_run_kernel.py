"""One step of watched runs, as compiled code that all kinds of watches use.

`advance_rows` brings runs to their next step, and finishes those that need no prediction.
`look_rows` takes the predictions for the other runs, and writes the answers about them (p, bounds
and so on) and their alarms. A run is one row of two tables, one of whole numbers and one of real
numbers; the columns of the tables are named here.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import BoolArray, FloatArray, IndexArray, IntArray
from ontarget.fitted.kernels import (
    DECIDED,
    NUMBERS,
    Stored,
    holds,
    outlook_of_row,
    shift_row,
    snap_value,
)

# Columns of the whole numbers of a run.
T: Final = 0  # the step of its next call
GROUP: Final = 1
STREAK: Final = 2  # consecutive steps at which the rule was met
ALARMED: Final = 3  # 1 if it is in alarm
SINCE: Final = 4  # the step at which the present or last alarm began
ENDED: Final = 5
LOST: Final = 6  # the reason (a code) why the behavior so far is unknown, or 0
STATUS: Final = 7  # of the last call
LAST_T: Final = 8  # the step of the last call
LAST_N: Final = 9  # how many episodes the bounds of the last outlook are based on
CODE: Final = 10  # the reason (a code) for the status
N_WHOLE: Final = 11

# Columns of the real numbers of a run: first those of its last outlook.
SO_FAR: Final = NUMBERS
SNAPPED: Final = NUMBERS + 1  # the behavior so far, rounded to the grid, as models read it
ONE: Final = NUMBERS + 2  # two details of the last reason
OTHER: Final = NUMBERS + 3
LOST_ONE: Final = NUMBERS + 4  # two details of the reason why the behavior so far is unknown
LOST_OTHER: Final = NUMBERS + 5
N_REAL: Final = NUMBERS + 6

# Columns of what a call brings: the reward; the behavior so far as the caller passed it, and
# whether it was passed; the behavior so far after this reward; whether the state could not be read
# at all; whether the run ends.
REWARD: Final = 0
TOLD: Final = 1
IS_TOLD: Final = 2
UPDATED: Final = 3
READING: Final = 4
ENDING: Final = 5
N_NEWS: Final = 6
ENDS: Final = 1.0  # values of ENDING: the run has come to its end, or was cut off before
CUT: Final = 2.0

# Columns of the table of steps: why no model answers there, or 0; how many episodes the bounds are
# based on; how many p was calibrated on; then where the step's ranks, excesses, curve and
# target map begin and end.
UNKNOWN_CODE: Final = 0
COUNT: Final = 1
LEARNED: Final = 2
SPANS: Final = 3
N_STEP: Final = 11

# Facts that are the same for all runs of a contract.
HORIZON: Final = 0
TRANSLATION: Final = 1
IS_READ: Final = 2  # the caller passes the behavior so far; it is not computed from rewards
FORGETS: Final = 3  # a bad reward does not matter for later values of the behavior
IS_DECLARED: Final = 4  # the horizon is a limit, not the longest run seen
N_FACTS: Final = 5

# Columns of an alarm rule: which number it compares (-1 for a rule written in Python), below which
# value the alarm is raised, from which value on it ends, and after how many steps it is raised.
COMPARED: Final = 0
RAISE: Final = 1
CLEAR: Final = 2
FOR_STEPS: Final = 3
N_TRIGGER: Final = 4

# The result for a run: nothing more to do; a bad reading; or the model has to be asked.
SETTLED: Final = 0
BAD: Final = 1
LOOK: Final = 2

_OK, _ALARM, _UNKNOWN, _DONE = 1, 2, 3, 4
_REASON_ALARM, _REASON_DECIDED, _REASON_ENDED = 2, 3, 4
_FEW, _OVER, _UNBEGUN, _EARLY, _BAD_REWARD, _BAD_BEHAVIOR = 6, 7, 8, 9, 10, 11
_NOT_TOLD, _BEHAVIOR_LOST, _OUT_OF_BOUNDS, _BAD_FEATURE, _UNREADABLE = 12, 13, 14, 15, 16
_PAST, _CUT_OFF = 17, 18


@inner_kernel
def _say(
    whole: IndexArray, real: FloatArray, status: int, code: int, one: float, other: float
) -> None:
    """Write a run's status and the code of the reason for it, with two details of the reason."""
    whole[STATUS], whole[CODE] = status, code
    real[ONE], real[OTHER] = one, other


@inner_kernel
def _know_nothing(whole: IndexArray, real: FloatArray, code: int, one: float, other: float) -> None:
    """Write an answer without numbers, and the reason's code; a run in alarm stays in alarm."""
    for place in range(NUMBERS):
        real[place] = np.nan
    _say(whole, real, _ALARM if whole[ALARMED] else _UNKNOWN, code, one, other)


@inner_kernel
def _account(
    whole: IndexArray, real: FloatArray, news: FloatArray, facts: IndexArray, amounts: FloatArray
) -> int:
    """Update the behavior so far with the reward or behavior of this call."""
    t, reward = whole[T], news[REWARD]
    if news[IS_TOLD] > 0.0:
        real[SO_FAR] = news[TOLD]
        if whole[LOST] != _OUT_OF_BOUNDS:
            whole[LOST] = 0 if np.isfinite(news[TOLD]) else _BAD_BEHAVIOR
            real[LOST_ONE], real[LOST_OTHER] = news[TOLD], t
    elif t == 0:
        if reward != 0.0:
            real[LOST_ONE], real[LOST_OTHER] = reward, t
            return _EARLY
    elif facts[IS_READ]:
        whole[LOST] = _NOT_TOLD
    elif not np.isfinite(reward):
        if whole[LOST] != _OUT_OF_BOUNDS:
            whole[LOST] = _BAD_REWARD
            real[LOST_ONE], real[LOST_OTHER] = reward, t
    elif reward < amounts[2] or reward > amounts[3]:
        # The reward breaks the declared bounds, so "decided" might be wrong from here on (M18).
        whole[LOST] = _OUT_OF_BOUNDS
        real[LOST_ONE], real[LOST_OTHER] = reward, t
    else:
        if facts[FORGETS] and whole[LOST] != _OUT_OF_BOUNDS:
            whole[LOST] = 0
        real[SO_FAR] = news[UPDATED]
        if whole[LOST] == 0 and not np.isfinite(real[SO_FAR]):
            whole[LOST] = _BEHAVIOR_LOST  # finite rewards may add up to infinity
    return int(whole[LOST])


@inner_kernel
def _close(
    whole: IndexArray,
    real: FloatArray,
    trouble: int,
    target: tuple[FloatArray, IndexArray],
    amounts: FloatArray,
) -> None:
    """Write the last answer about a run: p is exactly 0 or 1 if the outcome is known."""
    whole[ENDED] = 1
    sides, first = target
    if trouble != 0 or not np.isfinite(real[SO_FAR]):
        code = trouble if trouble != 0 else _BEHAVIOR_LOST
        _know_nothing(whole, real, code, real[LOST_ONE], real[LOST_OTHER])
        return
    outcome, met = snap_value(real[SO_FAR], amounts), 0.0
    for c in range(first[0], first[1]):
        if holds(sides[c], outcome):
            met = 1.0
    for place in range(NUMBERS):
        real[place] = met
    _say(whole, real, _DONE, _REASON_ENDED, met, outcome)


@inner_kernel
def _advance(
    run: tuple[IndexArray, FloatArray],
    news: FloatArray,
    state: FloatArray,
    steps: IndexArray,
    contract: tuple[IndexArray, FloatArray, FloatArray, IndexArray, BoolArray],
) -> int:
    """Bring one run to its next step, as far as that needs no prediction; return a code."""
    # The code is SETTLED (nothing more to do), BAD (a missing or unreadable value) or LOOK (the
    # model must be asked).
    whole, real = run
    facts, amounts, sides, first, may_miss = contract
    t = whole[T]
    whole[LAST_T], whole[LAST_N] = min(t, facts[HORIZON]) if facts[IS_DECLARED] else t, 0
    if whole[ENDED]:
        whole[ALARMED] = 0
        _know_nothing(whole, real, _OVER, 0.0, 0.0)
        return SETTLED
    if news[ENDING] > 0.0 and t == 0:
        _know_nothing(whole, real, _UNBEGUN, 0.0, 0.0)
        return SETTLED
    trouble = _account(whole, real, news, facts, amounts)
    whole[T] = t + 1
    if news[ENDING] == CUT and t != facts[HORIZON]:  # cut off at the horizon is complete (M1)
        whole[ENDED], whole[ALARMED] = 1, 0
        _know_nothing(whole, real, _CUT_OFF, t, 0.0)
        return SETTLED
    if news[ENDING] > 0.0 or (facts[IS_DECLARED] and t == facts[HORIZON]):
        _close(whole, real, trouble, (sides, first), amounts)
        return SETTLED
    past = t >= facts[HORIZON]  # longer than every learning run, and no horizon was declared (M18)
    if not past:
        whole[LAST_N] = steps[t, whole[GROUP], COUNT]
    if trouble != 0:
        whole[STREAK] = 0
        _know_nothing(whole, real, trouble, real[LOST_ONE], real[LOST_OTHER])
        return BAD
    if past:
        _know_nothing(whole, real, _PAST, facts[HORIZON], 0.0)
        return SETTLED
    if news[READING] > 0.0:
        whole[STREAK] = 0
        _know_nothing(whole, real, _UNREADABLE, 0.0, 0.0)
        return BAD
    for j in range(may_miss.size):
        if np.isinf(state[j]) or (np.isnan(state[j]) and not may_miss[j]):
            whole[STREAK] = 0
            _know_nothing(whole, real, _BAD_FEATURE, j, state[j])
            return BAD
    return LOOK


@kernel
def advance_rows(
    runs: tuple[IndexArray, FloatArray],
    at: IndexArray,
    news: FloatArray,
    states: FloatArray,
    steps: IndexArray,
    scales: FloatArray,
    facts: IndexArray,
    amounts: FloatArray,
    values: FloatArray,
    sides: FloatArray,
    first: IndexArray,
    may_miss: BoolArray,
    ends: FloatArray,
    became: IndexArray,
) -> None:
    """Bring the runs in rows ``at`` to their next step; write a code for each to ``became``."""
    # The code is SETTLED (nothing more to do), BAD (a missing or unreadable value) or LOOK (the
    # model must be asked). ``states`` may have more columns than features. For a run with LOOK, the
    # values that the model must be asked about are written to ``ends``.
    contract = (facts, amounts, sides, first, may_miss)
    for k in range(at.size):
        whole, real = runs[0][at[k]], runs[1][at[k]]
        became[k] = _advance((whole, real), news[k], states[k], steps, contract)
        if became[k] == LOOK:
            real[SNAPPED] = snap_value(real[SO_FAR], amounts)
            way = (facts[TRANSLATION], scales[whole[LAST_T], 0])
            moved = scales[whole[LAST_T], 3]
            shift_row(values, real[SNAPPED] - moved, way, amounts, ends[k])


@inner_kernel
def judge(
    compared: float, decided: float, trigger: FloatArray, streak: int, alarmed: int
) -> tuple[int, int]:
    """The streak and the alarm of a run after one more step with a known p."""
    streak = streak + 1 if compared < trigger[RAISE] else 0
    if decided == 0.0 or streak >= trigger[FOR_STEPS]:
        return streak, 1
    if alarmed and compared >= trigger[CLEAR]:
        return streak, 0
    return streak, alarmed


@inner_kernel
def _judge_run(whole: IndexArray, real: FloatArray, trigger: FloatArray) -> None:
    """Write the alarm and the status of a run, from the numbers of the answer about it."""
    compared = 1.0
    if trigger[COMPARED] >= 0.0:
        compared = real[int(trigger[COMPARED])]
        before = whole[ALARMED]
        streak, alarmed = judge(compared, real[DECIDED], trigger, whole[STREAK], before)
        whole[STREAK], whole[ALARMED] = streak, alarmed
        if alarmed and not before:
            whole[SINCE] = whole[LAST_T]
    if not whole[ALARMED]:
        _say(whole, real, _OK, 0, 0.0, 0.0)
    elif real[DECIDED] == 0.0:
        _say(whole, real, _ALARM, _REASON_DECIDED, real[SO_FAR], 0.0)
    else:
        _say(whole, real, _ALARM, _REASON_ALARM, compared, trigger[RAISE])


@kernel
def judge_rows(runs: tuple[IndexArray, FloatArray], at: IndexArray, triggers: FloatArray) -> None:
    """Write the alarms of the runs in rows ``at``, from the numbers of the answers about them."""
    for k in range(at.size):
        whole = runs[0][at[k]]
        _judge_run(whole, runs[1][at[k]], triggers[whole[GROUP]])


@kernel
def look_rows(
    runs: tuple[IndexArray, FloatArray],
    at: IndexArray,
    stored: Stored,
    limits: tuple[FloatArray, FloatArray],
    steps: IndexArray,
    scales: FloatArray,
    facts: IndexArray,
    amounts: FloatArray,
    target: tuple[IndexArray, FloatArray, IndexArray],
    triggers: FloatArray,
) -> None:
    """Write the answers about the runs in rows ``at``, and their alarms, from predictions."""
    columns, sides, first = target
    room = (np.empty(columns.shape[1]), np.empty(columns.shape[1]))
    for k in range(at.size):
        whole, real = runs[0][at[k]], runs[1][at[k]]
        t = whole[LAST_T]
        spans = steps[t, whole[GROUP]]
        own = (
            stored[0][spans[SPANS] : spans[SPANS + 1]],
            stored[1][spans[SPANS + 2] : spans[SPANS + 3]],
            stored[2][spans[SPANS + 4] : spans[SPANS + 5]],
            stored[3][spans[SPANS + 6] : spans[SPANS + 7]],
        )
        outlook_of_row(
            own,
            (limits[0][k], limits[1][k]),
            (columns, sides, first, 0),
            (facts[TRANSLATION], real[SNAPPED], scales[t, 1], scales[t, 2]),
            amounts,
            room,
            real,
        )
        if spans[UNKNOWN_CODE] != 0 and real[DECIDED] < 0.0:
            # Such steps are skipped, live and for the assure episodes, and the streak goes on (M8).
            _know_nothing(whole, real, spans[UNKNOWN_CODE], spans[LEARNED], 0.0)
        else:
            _judge_run(whole, real, triggers[whole[GROUP]])


@kernel
def first_alarms_of_runs(
    compared: FloatArray,
    decided: FloatArray,
    broken: IndexArray,
    trigger: FloatArray,
    first: IndexArray,
) -> None:
    """Write the step of each run's first alarm, as a live watch would raise it; -1 for none."""
    # ``compared``, ``decided`` and ``broken`` are (steps, runs). ``compared`` is the number that
    # the alarm rule compares, NaN if it is unknown. ``decided`` is 1 or 0 if the target is already
    # certain to be met or missed, and -1 otherwise. ``broken`` says whether a missing or unreadable
    # value sets the streak (steps in a row below the threshold) back to 0.
    for i in range(compared.shape[1]):
        streak, alarmed = 0, 0
        first[i] = -1
        for t in range(compared.shape[0]):
            if np.isnan(compared[t, i]):
                if broken[t, i]:
                    streak = 0
                continue
            streak, alarmed = judge(compared[t, i], decided[t, i], trigger, streak, alarmed)
            if alarmed:
                first[i] = t
                break


# A run's memory has one row for each of the last steps, the latest first: the features, then the
# reward (or behavior) that came with them. Then come the sums of all values so far, how many values
# are in each sum, and how often each counted category has occurred. Recorded states have the same
# columns (`ontarget.episodes.history`).
@kernel
def recall_rows(
    memory: FloatArray,
    lags: int,
    at: IndexArray,
    brought: FloatArray,
    columns: tuple[IntArray, IntArray, IntArray, IntArray, IntArray],
    states: FloatArray,
) -> None:
    """Fill in the columns of ``states`` behind the features, for the runs in rows ``at``."""
    earlier, rewards, changes, means, counts = columns
    width = memory.shape[2]
    for i in range(at.size):
        own, row = memory[at[i]], states[i]
        for c in range(earlier.shape[0]):
            row[earlier[c, 0]] = own[earlier[c, 2] - 1, earlier[c, 1]]
        for c in range(changes.shape[0]):
            row[changes[c, 0]] = row[changes[c, 1]] - own[0, changes[c, 1]]
        for lag in range(lags - 1, 0, -1):
            own[lag] = own[lag - 1]
        for j in range(width):
            seen = row[j] if j < width - 1 else brought[i]
            known = np.isfinite(seen)
            if lags:
                own[0, j] = seen if known else np.nan
            if known:
                own[lags, j] += seen
                own[lags + 1, j] += 1.0
        for c in range(rewards.shape[0]):
            row[rewards[c, 0]] = own[rewards[c, 2] - 1, width - 1]
        for c in range(means.shape[0]):
            n = own[lags + 1, means[c, 1]]
            row[means[c, 0]] = own[lags, means[c, 1]] / n if n > 0.0 else np.nan
        for c in range(counts.shape[0]):
            k, place = lags + 2 + c // width, c % width
            if row[counts[c, 1]] == counts[c, 2]:
                own[k, place] += 1.0
            row[counts[c, 0]] = own[k, place]
