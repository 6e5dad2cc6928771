"""Plays recorded episodes as the messages of their agents, and sends messages to a service."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ontarget.cli.options import ReadsRuns, remark_lines, unseen_line
from ontarget.errors import EpisodesError, ServiceError

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor
    from ontarget._typing import FloatArray
    from ontarget.episodes.schema import Schema


class Replay:
    """Recorded episodes as messages, played one episode after the other or all side by side."""

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
    """What the message of step t reports about step t − 1, as the name and value of a field."""
    if runs.behavior.told:
        return "behavior", _after(runs.take([i]), t - 1)
    return "reward", float(runs.rewards_at(t - 1)[place])


def _brought(news: dict[str, tuple[str, float]]) -> dict[str, Any]:
    """The fields of a message that report the last reward or behavior."""
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
    reader: ReadsRuns,
    *,
    runs: Sequence[str],
    steps_per_second: float | None,
    together: bool = False,
) -> Replay:
    """The episodes of a file, to be played as messages."""
    episodes = reader.read(path, monitor)
    for told in filter(None, (remark_lines(episodes), unseen_line(episodes))):
        typer.echo(told, err=True)  # standard output is for answers
    if runs:
        episodes = named_runs(episodes, runs)
    return Replay(
        episodes,
        grouped=monitor.groups is not None,
        together=together or bool(runs),
        steps_per_second=steps_per_second,
    )


def played_to(monitor: GoalMonitor, played: Replay) -> Iterator[dict[str, Any]]:
    """The messages of recorded runs as a service takes them: states and signals by name."""
    for message in played:
        if "state" in message:
            message["state"] = by_name(monitor.schema, message["state"])
        if isinstance(message.get("reward"), dict):  # what each of several behaviors is read from
            earned = message.pop("reward")
            signals = {monitor.readings[name].column or "reward": earned[name] for name in earned}
            message |= {"reward": signals.pop("reward", 0.0), "signals": signals}
        yield message


def named_runs(episodes: Episodes, names: Sequence[str]) -> Episodes:
    """The episodes with these ids, which ``--run`` names."""
    places = {str(name): place for place, name in enumerate(episodes.ids.tolist())}
    for name in names:
        if name not in places:
            shown = ", ".join(list(places)[:5]) + (", …" if len(places) > 5 else "")
            raise EpisodesError(
                f"--run needs the id of an episode, got {name!r}; there are {shown}"
            )
    return episodes.take([places[name] for name in dict.fromkeys(names)])


def answers_of_service(
    server: str, messages: Iterable[dict[str, Any] | str]
) -> Iterator[dict[str, Any]]:
    """The service's answer to each message.

    A text stands for a message that could not be read, and says why. A message without a run or a
    step gets both, counted from 0 for each agent. The token is that in ONTARGET_TOKEN.
    """
    from ontarget.client import Client

    open_runs: dict[str, tuple[str, int]] = {}
    with Client(server, os.environ.get("ONTARGET_TOKEN")) as client:
        for number, message in enumerate(messages, start=1):
            if isinstance(message, str):
                yield {"line": number, "status": "UNKNOWN", "reason": message}
                continue
            agent = str(message.get("agent", "")) or "agent"
            run, step = open_runs.get(agent, (uuid.uuid4().hex, 0))
            whole = {"run": run, "step": step, **message, "agent": agent}
            try:
                (answer,) = client.report([whole])
            except ServiceError as error:
                yield {"line": number, "agent": agent, "status": "UNKNOWN", "reason": str(error)}
                if client.waiting:
                    raise
                continue
            if isinstance(answer["status"], int):
                reason = answer.get("detail") or answer["title"]
                yield {"line": number, "agent": agent, "status": "UNKNOWN", "reason": reason}
                continue
            open_runs[agent] = run, step + 1
            if answer.get("end"):
                del open_runs[agent]
            yield answer
