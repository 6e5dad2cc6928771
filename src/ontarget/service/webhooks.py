"""Messages about alarms.

Each is stored together with the step that raised the alarm, and sent until it arrives.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from ontarget._text import plain
from ontarget.errors import InputError, StoreError
from ontarget.service._records import silenced
from ontarget.service.store import Batch, Run, Store

_ATTEMPTS: Final = 12  # the last about two hours after the first
_LONGEST: Final = 3_600.0  # seconds between two attempts
_AT_ONCE: Final = 16
_LEASE: Final = 60.0  # seconds after which another worker may try a message that one has taken
_NEVER: Final = "0001-01-01T00:00:00Z"

T = TypeVar("T")
InWriter = Callable[[Callable[[], T]], Awaitable[T]]


class Hook(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of messages about alarms.

    Attributes
    ----------
    name
        The hook's name in lists and logs, where the URL, which may contain a secret, is not shown.
    url
        The URL to send messages to by HTTP POST: your own webhook, or Alertmanager.
    kind
        ``"webhook"`` posts what Alertmanager would post (version 4), signed as Standard Webhooks;
        ``"alertmanager"`` posts to Alertmanager's own API (``/api/v2/alerts``).
    secret
        The key to sign messages with: ``whsec_`` and base64. Empty for no signature.
    """

    name: str
    url: str
    kind: Literal["webhook", "alertmanager"] = "webhook"
    secret: str = ""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"hook {self.name!r} needs an address with http:// or https://")
        if self.secret:
            _key(self.secret)


class _Message(NamedTuple):
    id: int
    alarm: str
    hook: str
    body: bytes
    attempts: int
    due_at: float


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature`` (Standard Webhooks) that signs a message with the secret.

    Examples
    --------
    >>> signature("whsec_c2VjcmV0", "m1", 1700000000, b"{}")
    'v1,6a2BS7tv4ywWskEzv65tBIvuQ6lMqhUAxIXRZuEx1t4='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    found = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(found).decode()}"


class Courier:
    """Adds messages about alarms to a batch, and sends those that are due.

    Every message arrives at least once, and messages about one alarm arrive in order. A receiver
    can recognize copies by the header ``webhook-id``.

    Parameters
    ----------
    store
        The store in which messages wait.
    hooks
        The receivers.
    label
        A function that returns the name and version of a contract, given its number.
    clock
        A function that returns the time in seconds since 1970.
    """

    def __init__(
        self,
        store: Store,
        hooks: Sequence[Hook],
        *,
        label: Callable[[int], str],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._hooks = {hook.name: hook for hook in hooks}
        self._label = label
        self._clock = clock
        self._random = random.Random()
        self.added = False  # whether messages may have come since those that are due were sent

    def notify(self, batch: Batch, run: Run, alarm: str, state: str) -> None:
        """Add messages about an alarm to the batch, unless the alarm's agent is silenced."""
        if not self._hooks or silenced(self._store, run.agent, at=batch.at):
            return
        reason = next((one[3] for one in batch.raised if one[1] == alarm), "")
        for hook in self._hooks.values():
            alert = self._alert(run, alarm, state, reason, batch.at)
            body = [alert] if hook.kind == "alertmanager" else _webhook(alert, alarm, hook.name)
            batch.messages.append((alarm, hook.name, msgspec.json.encode(body)))
        self.added = True

    def _alert(self, run: Run, alarm: str, state: str, reason: str, at: float) -> dict[str, Any]:
        moment = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
        firing = state == "firing"
        return {
            "status": state,
            "labels": {
                "alertname": "OntargetAlarm",
                "agent": run.agent,
                "run": run.run,
                "contract": self._label(run.contract),
                "alarm": alarm,
            },
            "annotations": {"summary": f"{run.agent}, run {run.run}: {reason or state}"},
            **({"startsAt": moment} if firing else {"endsAt": moment}),
        }

    async def work(self, in_writer: InWriter[Any], woken: asyncio.Event) -> None:
        """Send messages that are due, for as long as the service runs."""
        import httpx

        async with httpx.AsyncClient(timeout=10.0, follow_redirects=False) as client:
            while True:
                woken.clear()
                try:
                    sent = await self.send_due(client, in_writer)
                except StoreError:
                    sent = 0  # the store will come back, and the messages wait in it
                if not sent:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), 1.0)

    async def send_due(self, client: Any, in_writer: InWriter[Any]) -> int:
        """Try to send the messages that are due; return how many there were."""
        if not self._hooks:
            return 0
        self.added = False
        messages: list[_Message] = await in_writer(self._claim)
        results = await asyncio.gather(*(self._send(client, one) for one in messages))
        if messages:
            await in_writer(lambda: self._note(list(zip(messages, results, strict=True))))
        return len(messages)

    def _claim(self) -> list[_Message]:
        """The messages that are due, at most one per alarm; no other process will send these."""
        now = self._clock()
        with self._store.database.write() as at:
            rows = at.rows(
                "SELECT id, alarm, hook, body, attempts, due_at FROM outbox o "
                "WHERE state = 'waiting' AND due_at <= ? AND NOT EXISTS (SELECT 1 FROM outbox e "
                "WHERE e.alarm = o.alarm AND e.hook = o.hook AND e.state = 'waiting' "
                "AND e.id < o.id) ORDER BY due_at LIMIT ?",
                (now, _AT_ONCE),
            )
            found = [_Message(*row)._replace(body=bytes(row[3])) for row in rows]
            return [
                one
                for one in found
                if at.run(
                    "UPDATE outbox SET due_at = ? WHERE id = ? AND due_at = ?",
                    (now + _LEASE, one.id, one.due_at),
                )
            ]

    async def _send(self, client: Any, message: _Message) -> str:
        """Send one message; return an empty text if it arrived, or else the error."""
        hook = self._hooks.get(message.hook)
        if hook is None:
            return f"there is no hook {message.hook!r} any more"
        headers = {"content-type": "application/json", "webhook-id": f"msg_{message.id}"}
        if hook.secret:
            stamp = int(self._clock())
            headers["webhook-timestamp"] = str(stamp)
            headers["webhook-signature"] = signature(
                hook.secret, headers["webhook-id"], stamp, message.body
            )
        try:
            response = await client.post(hook.url, content=message.body, headers=headers)
        except Exception as error:  # whatever a receiver does, the message stays
            return type(error).__name__
        return "" if response.is_success else f"status {response.status_code}"

    def _note(self, results: Sequence[tuple[_Message, str]]) -> None:
        now = self._clock()
        rows = []
        for message, wrong in results:
            tries = message.attempts + 1
            state = "sent" if not wrong else "dead" if tries >= _ATTEMPTS else "waiting"
            wait = min(2.0**tries, _LONGEST) * self._random.uniform(0.5, 1.0)
            due = now if state == "sent" else now + wait  # of one that was sent: when it arrived
            rows.append((state, tries, due, plain(wrong)[:500], message.id))
        with self._store.database.write() as at:
            at.run_many(
                "UPDATE outbox SET state = ?, attempts = ?, due_at = ?, error = ? WHERE id = ?",
                rows,
            )


def read_hooks(path: Path) -> list[Hook]:
    """The receivers (hooks) in a TOML file: one table ``[[hook]]`` each."""
    try:
        found = tomllib.loads(path.read_text())
        return msgspec.convert(found.get("hook", []), list[Hook])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{path} has a hook that cannot be used: {error}") from error


def _webhook(alert: dict[str, Any], alarm: str, receiver: str) -> dict[str, Any]:
    """The JSON body that Alertmanager would post to a webhook, version 4."""
    full = {"startsAt": _NEVER, "endsAt": _NEVER, **alert, "generatorURL": "", "fingerprint": alarm}
    return {
        "version": "4",
        "groupKey": alarm,
        "truncatedAlerts": 0,
        "status": alert["status"],
        "receiver": receiver,
        "groupLabels": {"alarm": alarm},
        "commonLabels": alert["labels"],
        "commonAnnotations": alert["annotations"],
        "externalURL": "",
        "alerts": [full],
    }


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise InputError("a hook's secret needs `whsec_` followed by base64") from None
