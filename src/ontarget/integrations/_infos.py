"""Reads named signals (numbers besides the reward) from the ``infos`` of a vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ontarget._typing import BoolArray


def infos_of_rows(
    infos: Mapping[str, Any], names: Sequence[str], ended: BoolArray
) -> list[dict[str, Any]]:
    """For each environment, the values of these signals by name; missing ones are left out.

    ``ended`` marks the runs whose last ``info`` is in ``final_info``, as in SAME_STEP mode.
    """
    found: list[dict[str, Any]] = []
    for i, is_last in enumerate(ended.tolist()):
        own = infos.get("final_info", {}) if is_last else infos
        # Gymnasium marks under _name which environments reported a name.
        known = [
            name for name in names if name in own and (f"_{name}" not in own or own[f"_{name}"][i])
        ]
        found.append({name: own[name][i] for name in known})
    return found
