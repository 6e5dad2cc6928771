"""``ontarget watch --server``: sends JSON lines to a service and returns its answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from ontarget.errors import ServiceError


def answers_of_service(
    server: str, messages: Iterable[dict[str, Any] | str]
) -> Iterator[dict[str, Any]]:
    """The service's answer to each message.

    A text in ``messages`` stands for a message that could not be read, and says why; it is returned
    as an error. A message without a run or a step gets both: the messages of an agent's run are
    counted from 0, and after a message with ``"end"`` the next one begins another run. The token is
    taken from the environment variable ONTARGET_TOKEN.
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
