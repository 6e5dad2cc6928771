"""Turns a monitor's answers about runs (`Outlooks`) into the JSON that agents get back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from ontarget.live import GoalFleet, Outlooks, Status
from ontarget.service._moving import Accepted
from ontarget.service.contracts import Fleet
from ontarget.service.messages import Answer

_NAMES: Final = tuple(status.name for status in Status)


class News(NamedTuple):
    """A monitor's answers about some runs after a step, as lists with one entry per run."""

    numbers: list[list[float]]  # p, spread, low, high, plausibility, assurance, so far
    n: list[int]
    status: list[str]
    thresholds: list[float]
    packed: list[bytes]
    alarmed: list[bool]
    since: list[int]
    ended: list[bool]
    reasons: list[str]

    @classmethod
    def of(
        cls, fleet: Fleet, keys: Sequence[str], outlooks: Outlooks, *, ends: bool, cut: bool
    ) -> News:
        """The monitor's answers about the runs named in ``keys``, as lists.

        ``ends`` is true if these runs have ended, ``cut`` if they were cut off before their end.
        """
        standings = fleet.standings(keys)
        words = outlooks.words
        numbers = np.column_stack(
            [
                outlooks.p, outlooks.spread, outlooks.low, outlooks.high, outlooks.plausibility,
                outlooks.assurance, standings.so_far,
            ]
        )  # fmt: skip
        of_group = np.array([trigger.threshold for trigger in fleet.triggers])
        return cls(
            numbers=numbers.tolist(),
            n=outlooks.n.tolist(),
            status=[_NAMES[code] for code in outlooks.status.tolist()],
            thresholds=of_group[standings.group].tolist(),
            packed=standings.packed,
            alarmed=standings.alarmed.tolist(),
            since=standings.since.tolist(),
            ended=[True] * len(keys) if ends or cut else standings.ended.tolist(),
            reasons=[
                words(i) if reasoned or cut else ""
                for i, reasoned in enumerate(standings.reasoned.tolist())
            ],
        )


def answers_of(
    some: Sequence[Accepted], news: News, fleet: Fleet, *, label: str, at: float
) -> list[Answer]:
    """The answer to each accepted step.

    Parameters
    ----------
    some
        The accepted steps, each with its run.
    news
        The monitor's answers about these runs after the step.
    fleet
        The `FleetWatch` or `GoalFleet` object that follows these runs.
    label
        The name and the version of the contract (monitor, target and alarm rule), as text.
    at
        When the steps arrived, in seconds since 1970.
    """
    said = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    shown = said.replace("+00:00", "Z")
    found, schema = [], some[0].run.held.fitted.schema
    for one, row, n, status, threshold, ended, reason in zip(
        some, news.numbers, news.n, news.status, news.thresholds, news.ended, news.reasons,
        strict=True,
    ):  # fmt: skip
        run, stored = one.run, one.run.stored
        p, least, most, low, high, plausibility, assurance, so_far = row
        found.append(
            Answer(
                stored.agent, stored.run, stored.id, label, stored.next, p,
                (least, most) if p == p else None, low, high, plausibility, assurance, n, so_far,
                threshold, status, shown, reason, run.alarm, ended, False,
                _parts(fleet, stored.id),
                schema.unseen_in(one.message.state),
            )
        )  # fmt: skip
    return found


def _parts(fleet: Fleet, key: str) -> dict[str, float | None]:
    """For this run, p of each behavior alone, by name; empty for a single behavior."""
    if not isinstance(fleet, GoalFleet):
        return {}
    return {name: one.p for name, one in fleet[key].parts.items()}
