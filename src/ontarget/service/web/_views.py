"""The types of the objects that the HTTP API returns, and functions that fill them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from ontarget.service._records import (
    acknowledge,
    alarms,
    deliveries,
    silence,
)
from ontarget.service.contracts import ContractSpec
from ontarget.service.held import Held
from ontarget.service.messages import Answer, Moment, Value, read_payload
from ontarget.service.recorded import parquet_of
from ontarget.service.service import Service
from ontarget.service.store import Run, Store
from ontarget.service.web._http import Refusal

T = TypeVar("T")
_HISTORY = 10_000  # answers of one response
_MOST = 2**63 - 1
_TIMES = (
    "raised_at", "cleared_at", "acknowledged_at", "silenced_until", "told_at", "told_over_at",
)  # fmt: skip


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; to get the next page, send its ``next`` as ``after``."""

    items: list[T]
    next: str | None = None


class RunView(msgspec.Struct, frozen=True):
    """A run, with the monitor's latest answer about it."""

    id: str
    agent: str
    run: str
    target: str
    started_at: str
    ended_at: str | None
    met: bool | None
    intervened_at: int | None
    steps: int
    last: Answer


class RunHistory(msgspec.Struct, frozen=True):
    """A run with its answers, beginning at some step, and the state that each answer was about."""

    run: RunView
    answers: list[msgspec.Raw]
    states: list[dict[str, Value] | list[float | None] | None]
    next: int | None = None


class AgentView(msgspec.Struct, frozen=True):
    """An agent, with how many runs it has."""

    agent: str
    runs: int
    open: int
    in_alarm: int
    seen_at: str


class AlarmView(msgspec.Struct, frozen=True):
    """An alarm, and the outcome of its run; if the run met its target, the alarm was false.

    ``sent``, ``waiting`` and ``dead`` count the messages about the alarm; ``to`` names the hooks
    (receivers) that they go to, and ``error`` says why some are dead (given up). ``told_at`` is
    the last time at which a message arrived that says that the alarm was raised; ``told_over_at``
    is the same for messages that say that the alarm is over. Until ``silenced_until`` no messages
    about the alarm's agent are sent.
    """

    id: str
    kind: str
    reason: str
    raised_at: str
    cleared_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    note: str | None
    run_id: str
    agent: str
    run: str
    contract: str
    outcome: Literal["under way", "met", "missed", "unknown"]
    silenced_until: str | None
    to: list[str]
    sent: int
    waiting: int
    dead: int
    error: str
    told_at: str | None
    told_over_at: str | None


class Acknowledgement(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Who has seen an alarm, with a note."""

    by: Annotated[str, Meta(min_length=1, max_length=200)]
    note: Annotated[str, Meta(max_length=2_000)] = ""


class Silence(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """For how many minutes to send no messages about an agent's alarms."""

    minutes: Annotated[float, Meta(gt=0, le=100_000)]


class ContractView(msgspec.Struct, frozen=True):
    """A contract in use. ``made_from`` says how many runs its model was made from.

    ``one_sided`` says why p has nothing to learn from; it is empty if both kinds of runs, those
    that met the target and those that missed it, were recorded. ``closed`` says why the contract
    takes no steps: this version of ontarget cannot load its model. It is empty if it takes steps.
    """

    version: int
    spec: ContractSpec
    horizon: int
    features: list[str]
    thresholds: list[float | None]
    made_from: dict[str, int]
    one_sided: str = ""
    closed: str = ""


class DeliveryView(msgspec.Struct, frozen=True):
    """A message about an alarm.

    ``due_at`` is when the message is tried next or, if it was sent, when it arrived.
    """

    id: int
    alarm: str
    hook: str
    created_at: str
    attempts: int
    due_at: str
    state: str
    error: str


class Recalibration(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which runs to recalibrate a contract on.

    ``since``: use runs that began after this time. The default is when the newest version of the
    contract was added or, if that was later, when the drift was found. ``renew_p``: whether to use
    half of the runs to correct p, as in ``ontarget recalibrate``.
    """

    since: Moment | None = None
    renew_p: bool = False


class Deleted(msgspec.Struct, frozen=True):
    """How many runs were deleted."""

    deleted: int


class Retried(msgspec.Struct, frozen=True):
    """Which message about an alarm will be tried again."""

    id: int


class NewToken(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request for a new access token: what the token allows (its scopes), and a note."""

    scopes: Annotated[list[Literal["report", "read", "admin"]], Meta(min_length=1, max_length=3)]
    note: Annotated[str, Meta(max_length=200)] = ""


class Token(msgspec.Struct, frozen=True):
    """A new access token."""

    token: str


def page_of(request: Request, *, number: bool) -> tuple[Any, int]:
    """Where the requested page begins (the value of ``after``), and how many items it may have."""
    limit = whole(request.query_params.get("limit", "100"))
    if not 1 <= limit <= 1_000:
        raise Refusal(400, "wrong limit", "`limit` needs a whole number from 1 to 1000")
    after = request.query_params.get("after", "")
    if "\0" in after:
        raise Refusal(400, "wrong after", "`after` needs the value of `next` on the page before")
    return (whole(after or "0") if number else after), limit


def whole(text: str) -> int:
    """The whole number in a URL's parameter; any other text raises a `Refusal`."""
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > _MOST:
        raise Refusal(400, "wrong number", "a number in the URL needs to be whole, from 0 up")
    return int(text)


def flag(text: str) -> bool:
    """The truth value in a URL's parameter; any other text raises a `Refusal`."""
    if text not in ("true", "false"):
        raise Refusal(400, "wrong value", "a choice in the URL needs to be true or false")
    return text == "true"


def page(items: list[T], keys: list[Any], limit: int) -> Page[T]:
    """A page of items; ``keys[i]`` is the value of ``after`` for the page that follows item i."""
    return Page(items, str(keys[-1]) if len(items) == limit else None)


async def stored_run(service: Service, key: str) -> Run:
    """The stored run with this id; raises a `Refusal` if there is none."""
    found = await run_in_threadpool(service.store.find_runs, [key.replace("\0", "")])
    if not found:
        raise Refusal(404, "unknown run", "there is no run with this id")
    return next(iter(found.values()))


def run_view(run: Run, last: bytes) -> RunView:
    """A run together with the monitor's latest answer about it, which ``last`` has as JSON."""
    return RunView(
        id=run.id,
        agent=run.agent,
        run=run.run,
        target=run.target,
        started_at=_moment(run.started_at) or "",
        ended_at=_moment(run.ended_at),
        met=None if run.met is None else bool(run.met),
        intervened_at=run.intervened_at,
        steps=run.next,
        last=msgspec.json.decode(last, type=Answer),
    )


def history(service: Service, run: Run, request: Request) -> RunHistory:
    """A run with its answers, beginning at the step in the request's parameter ``from``."""
    least = whole(request.query_params.get("from", "0"))
    most = min(run.next, least + _HISTORY) - 1
    answers = service.store.history(run, least=least, most=most)
    last = service.store.history(run, least=run.next - 1)[-1]
    raw = [msgspec.Raw(bytes(one.answer)) for one in answers]
    states = [read_payload(bytes(one.payload)).get("state") for one in answers]
    following = most + 1 if most + 1 < run.next else None
    return RunHistory(run_view(run, bytes(last.answer)), raw, states, following)


def agent_view(found: dict[str, Any]) -> AgentView:
    """An agent with how many runs it has, from a row of the database."""
    return AgentView(**{**found, "seen_at": _moment(found["seen_at"])})


def alarms_page(
    service: Service, after: int, limit: int, is_open: bool | None, run: str | None = None
) -> Page[AlarmView]:
    """One page of alarms: of all runs, or of one run."""
    found = alarms(service.store, after=after, limit=limit, is_open=is_open, run=run)
    return page([_alarm(one) for one in found], [one["number"] for one in found], limit)


def alarm(service: Service, key: str) -> AlarmView:
    """The alarm with this id; raises a `Refusal` if there is none."""
    found = alarms(service.store, alarm=key.replace("\0", ""))
    if not found:
        raise Refusal(404, "unknown alarm", "there is no alarm with this id")
    return _alarm(found[0])


def acknowledged(service: Service, key: str, said: Acknowledgement) -> None:
    """Note who has seen the alarm with this id."""
    name = key.replace("\0", "")
    by, note = said.by.replace("\0", ""), said.note.replace("\0", "")
    if not acknowledge(service.store, name, by=by, note=note, at=service.clock()):
        raise Refusal(404, "unknown alarm", "there is no alarm with this id")


def silenced(service: Service, agent: str, said: Silence) -> None:
    """Send no messages about an agent's alarms for the minutes that the request asks for."""
    silence(service.store, agent, until=service.clock() + 60.0 * said.minutes)


def contracts(service: Service) -> list[ContractView]:
    """The contracts in use, as the HTTP API shows them."""
    service.contracts.reload()
    return [contract_view(held) for held in service.contracts.all()]


def contract_view(held: Held) -> ContractView:
    """A contract in use, as the HTTP API shows it."""
    outline = held.outline
    triggers = () if held.closed else held.fleet(held.spec.target).triggers
    return ContractView(
        held.version,
        held.spec,
        outline.horizon,
        list(outline.features),
        [one.threshold if abs(one.threshold) < 1e300 else None for one in triggers],
        outline.sizes,
        held.one_sided,
        held.closed,
    )


def deliveries_page(
    service: Service, after: int, limit: int, state: str | None
) -> Page[DeliveryView]:
    """One page of messages about alarms."""
    found = deliveries(service.store, after=after, limit=limit, state=state)
    items = [
        DeliveryView(**{**one, **{name: _moment(one[name]) for name in ("created_at", "due_at")}})
        for one in found
    ]
    return page(items, [one.id for one in items], limit)


def episodes(service: Service, name: str | None) -> bytes:
    """The finished runs of a contract, in all its versions, as the bytes of a Parquet file."""
    held = service.contracts.named(name)
    with service.store.database.read() as at:
        numbers = at.rows("SELECT id FROM contracts WHERE name = ?", (held.spec.name,))
        keys = [
            row[0]
            for (number,) in numbers
            for row in at.rows(
                "SELECT id FROM runs WHERE contract = ? AND (met IS NOT NULL OR cut_off = 1) "
                "ORDER BY number",
                (number,),
            )
        ]
    runs = service.store.find_runs(keys)
    ended = [runs[key] for key in keys if key in runs]
    return parquet_of(service.store, ended, held.outline)


def counts(store: Store) -> dict[str, int]:
    """How many runs and alarms are open, and how many messages about alarms are in each state."""
    with store.database.read() as at:
        states = at.rows("SELECT state, COUNT(*) FROM outbox GROUP BY state")
        runs = at.rows("SELECT COUNT(*) FROM runs WHERE ended_at IS NULL")[0][0]
        open_alarms = at.rows("SELECT COUNT(*) FROM alarms WHERE cleared_at IS NULL")[0][0]
    return {"runs": int(runs), "alarms": int(open_alarms), **{s: int(n) for s, n in states}}


def _alarm(found: dict[str, Any]) -> AlarmView:
    times = {name: _moment(found[name]) for name in _TIMES}
    shown = {name: one for name, one in found.items() if name != "number"}
    return AlarmView(**{**shown, **times})


def _moment(at: float | None) -> str | None:
    if at is None:
        return None
    said = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return said.replace("+00:00", "Z")
