"""Checks stored states of runs, which may come from anywhere, before compiled code reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ontarget.errors import InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.kernels import NUMBERS
from ontarget.live._reasons import Reason
from ontarget.live.outlook import Status

_MOST_STEPS: Final = 2**53
_NAMES: Final = (str, int, float, bool, type(None))


def check_counts(counts: Sequence[int], details: Sequence[float], fitted: Fitted) -> None:
    """Raise an `InputError` if the whole numbers in a stored run are impossible.

    ``counts`` are these numbers, in the order in which a run is packed. ``details`` are the numbers
    of the run's last answer, then the two details of the reason for its status. The check matters
    because the compiled code uses the step and the group as indices without checking them.
    """
    t, group, streak, alarmed, since, ended, lost, status, last_t, last_n, code = counts
    *numbers, one, _ = details
    last = fitted.horizon + 1 if fitted.horizon_declared else _MOST_STEPS
    if not 0 <= t <= last:
        raise InputError(f"the stored run needs a step from 0 to {last}, got {t}")
    rules = {
        f"group needs 0 to {fitted.n_groups - 1}, got {group}": 0 <= group < fitted.n_groups,
        f"outlook needs a step up to {t}, got {last_t}": 0 <= last_t <= t,
        "streak, since and n need whole numbers from 0 up": min(streak, since, last_n) >= 0,
        "alarmed and ended need to be true or false": {alarmed, ended} <= {0, 1},
        f"status needs a number from 0 to {len(Status) - 1}, got {status}": status in set(Status),
        "reason needs a known code": {lost, code} <= set(Reason),
        "reason needs the number of a feature": code != Reason.BAD_FEATURE
        or one in range(fitted.state_width),
        "the probabilities of the outlook need to lie between -1 and 1": all(
            -1.0 <= x <= 1.0 or x != x for x in numbers
        ),
    }
    for rule, holds in rules.items():
        if not holds:
            raise InputError(f"the stored run does not belong to this monitor: {rule}")


def check_values(state: Any, fitted: Fitted) -> None:
    """Raise an `InputError` if the fields of a stored state do not have the types of `RunState`."""
    kinds = {
        "target and text need texts": isinstance(state.target, str) and isinstance(state.text, str),
        "group needs a name": isinstance(state.group, _NAMES),
        "step, streak and since need whole numbers": _whole(state.step, state.streak, state.since),
        "alarmed and ended need to be true or false": {state.alarmed, state.ended} <= {0, 1}
        if _whole(state.alarmed, state.ended)
        else False,
        "lost needs a code and two numbers": _tuple(state.lost, 3)
        and _whole(state.lost[0])
        and _numbers(state.lost[1:]),
        f"outlook needs {6 + NUMBERS} numbers": _tuple(state.outlook, 6 + NUMBERS)
        and _whole(*state.outlook[:4])
        and _numbers(state.outlook[4:]),
        "so_far needs a number or null": _numbers([state.so_far]),
        "row needs numbers or null": state.row is None
        or (isinstance(state.row, tuple) and _numbers(state.row)),
        "history needs rows of numbers": isinstance(state.history, tuple)
        and all(isinstance(one, tuple) and _numbers(one) for one in state.history),
        "intervened_at needs a step or null": state.intervened_at is None
        or (_whole(state.intervened_at) and state.intervened_at >= 0),
    }
    for kind, holds in kinds.items():
        if not holds:
            raise InputError(f"the stored state of a run is not valid: {kind}")


def _tuple(value: Any, size: int) -> bool:
    return isinstance(value, tuple) and len(value) == size


def _whole(*values: Any) -> bool:
    return all(isinstance(one, int) and -(2**63) <= one < 2**63 for one in values)


def _numbers(values: Any) -> bool:
    """Whether every value is None or a number that fits into a float."""
    return all(one is None or isinstance(one, float) or _whole(one) for one in values)
