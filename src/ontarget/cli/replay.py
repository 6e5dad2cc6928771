"""Plays back recorded episodes as the messages that their agents would have sent."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ontarget._progress import working
from ontarget.cli.options import Columns, remark_lines, unseen_line
from ontarget.errors import EpisodesError

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor
    from ontarget._typing import FloatArray
    from ontarget.episodes.schema import Schema


class Replay:
    """Recorded episodes as messages, played one episode after the other or all side by side.

    Parameters
    ----------
    episodes
        The episodes to play.
    grouped
        Whether the messages contain the groups of the episodes.
    together
        Whether to play all episodes side by side.
    steps_per_second
        How many steps are played per second; None for as fast as possible.
    """

    def __init__(
        self,
        episodes: Episodes,
        *,
        grouped: bool = False,
        together: bool = False,
        steps_per_second: float | None = None,
    ) -> None:
        self._episodes = episodes
        self._grouped = grouped
        self.together = together
        self._pause = 0.0 if steps_per_second is None else 1.0 / steps_per_second

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The messages of all agents, in order; the name of an agent is the id of its episode."""
        n = len(self._episodes)
        for played in [list(range(n))] if self.together else ([i] for i in range(n)):
            runs = self._episodes.take(played)
            for t in range(int(runs.lengths.max()) + 1):
                yield from self._said(runs, t)
                if self._pause:
                    time.sleep(self._pause)

    def _said(self, runs: Episodes, t: int) -> Iterator[dict[str, Any]]:
        """The messages of step t: states of runs, and the ends of runs that are over by then."""
        each = {name: runs.only(name) for name in runs.names} or {"": runs}
        one = next(iter(each.values()))
        rows = one.at(t) if t < runs.horizon else None
        states = {} if rows is None else dict(zip(rows.index.tolist(), rows.states, strict=True))
        for place, i in enumerate(one.at(t - 1).index.tolist() if t else range(len(runs))):
            message: dict[str, Any] = {"agent": str(runs.ids[i])}
            if self._grouped and runs.groups is not None:
                message["group"] = runs.groups[i : i + 1].tolist()[0]
            if t:
                message |= _brought({name: _news(own, t, place, i) for name, own in each.items()})
            yield message | ({"state": states[i]} if i in states else {"end": True})


def by_name(schema: Schema, state: FloatArray) -> dict[str, Any]:
    """A state of recorded episodes as JSON: each feature by name, with null for a missing value."""
    found: dict[str, Any] = {}
    for feature, value in zip(schema.features, state.tolist(), strict=True):
        if math.isnan(value):
            found[feature.name] = None
        else:
            names = feature.categories
            found[feature.name] = value if names is None else names[int(value)]
    return found


def _news(runs: Episodes, t: int, place: int, i: int) -> tuple[str, float]:
    """What the message of step t reports about step t − 1, as the name and value of a field.

    The field is the reward of step t − 1 or, if the behavior is read from a column, the behavior
    after step t − 1.
    """
    if runs.behavior.told:
        return "behavior", _after(runs.take([i]), t - 1)
    return "reward", float(runs.rewards_at(t - 1)[place])


def _brought(news: dict[str, tuple[str, float]]) -> dict[str, Any]:
    """The fields of a message that report the last reward or behavior.

    Several of them are reported as a dictionary by the behaviors' names.
    """
    if "" in news:
        return dict([news[""]])
    return {"reward": {name: value for name, (_, value) in news.items()}}


def _after(run: Episodes, t: int) -> float:
    """The behavior of one run after step t."""
    over = t + 1 == run.lengths[0]
    return float(run.outcomes[0] if over else run.at(t + 1).behavior[0])


def read_replay(
    path: Path,
    monitor: GoalMonitor,
    columns: Columns,
    *,
    runs: Sequence[str],
    steps_per_second: float | None,
    together: bool = False,
) -> Replay:
    """The episodes of a file, to be played as messages.

    All episodes are played one after the other, or those named in ``runs`` side by side. With
    ``together``, all are played side by side.
    """
    from ontarget import Episodes

    with working(f"reading {path.name}"):
        episodes = Episodes.read(path, like=monitor, **columns)
    for told in filter(None, (remark_lines(episodes), unseen_line(episodes))):
        typer.echo(told, err=True)  # standard output is for answers
    names = [str(one) for one in episodes.ids.tolist()]
    unknown = [one for one in runs if one not in names]
    if unknown:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise EpisodesError(f"no episode {unknown[0]!r} in {path.name}; it holds {shown}")
    if runs:
        place = {name: i for i, name in enumerate(names)}
        episodes = episodes.take([place[one] for one in dict.fromkeys(runs)])
    return Replay(
        episodes,
        grouped=monitor.groups is not None,
        together=together or bool(runs),
        steps_per_second=steps_per_second,
    )
