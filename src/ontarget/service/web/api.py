"""Version 1 of the HTTP API: a table of its endpoints, which its OpenAPI document is made from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ontarget.errors import InputError
from ontarget.service._records import runs_of, try_again
from ontarget.service.contracts import ContractSpec
from ontarget.service.health import Health, HealthWatch
from ontarget.service.held import Held
from ontarget.service.messages import Answer, EndMessage, Problem, StepMessage
from ontarget.service.recorded import recalibrated
from ontarget.service.service import Service, chores
from ontarget.service.web import _views as views
from ontarget.service.web._events import Streams
from ontarget.service.web._http import (
    Endpoint,
    Refusal,
    answered,
    body_of,
    decoded,
    described,
    holds_token,
    json_response,
    problem_response,
)
from ontarget.service.web._metrics import Metrics
from ontarget.service.web._page import page_routes
from ontarget.service.web._steps import Steps, response_of
from ontarget.service.web._why import why

T = TypeVar("T")

_PAGE: Final = {
    "after": {"type": "string", "maxLength": 300},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
}
_STEPS: Final = "/v1/steps"  # the first of the routes
_TEXT: Final = {"type": "string", "maxLength": 200}
_FLAG: Final = {"type": "boolean"}


class Api:
    """The endpoints of the HTTP API of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.metrics = Metrics()
        self.streams = Streams(service.store, most=service.limits.streams)
        self.taking = Steps(service, self.metrics)
        self._health: dict[int, HealthWatch] = {}
        self._health_lock = threading.Lock()

    def endpoints(self) -> list[Endpoint]:
        """All endpoints of the HTTP API."""
        return [
            Endpoint(
                "POST", _STEPS, self.steps, "Report steps: one, an array, or NDJSON.",
                scope="report", takes=(StepMessage, list[StepMessage]),
                gives=(Answer, list[dict[str, Any]]),
            ),
            Endpoint(
                "POST", "/v1/runs/{id}/end", self.end, "End a run.",
                scope="report", takes=(EndMessage,), gives=(Answer,),
            ),
            Endpoint(
                "GET", "/v1/runs", self.runs, "Runs, in the order in which they began.",
                gives=(views.Page[views.RunView],), query={**_PAGE, "agent": _TEXT, "open": _FLAG},
            ),
            Endpoint("GET", "/v1/runs/{id}", self.run, "A run and its history.",
                     gives=(views.RunHistory,), query={"from": {"type": "integer", "minimum": 0}}),
            Endpoint("GET", "/v1/runs/{id}/why", self.why,
                     "What moved p in a run's last step, or in another step, and the recorded "
                     "runs behind p.", gives=(dict[str, Any],),
                     query={"step": {"type": "integer", "minimum": 0}}),
            Endpoint("DELETE", "/v1/runs/{id}", self.delete_run, "Delete a run.",
                     gives=(views.Deleted,), scope="admin"),
            Endpoint("GET", "/v1/agents", self.agents, "Agents by name.",
                     gives=(views.Page[views.AgentView],), query=_PAGE),
            Endpoint("DELETE", "/v1/agents/{agent}", self.delete_agent,
                     "Delete an agent with all its runs.", gives=(views.Deleted,), scope="admin"),
            Endpoint("GET", "/v1/alarms", self.alarms, "Alarms, the newest first.",
                     gives=(views.Page[views.AlarmView],),
                     query={**_PAGE, "open": _FLAG, "run": _TEXT}),
            Endpoint("POST", "/v1/alarms/{id}/acknowledge", self.acknowledge,
                     "Acknowledge an alarm, with a note.", scope="admin",
                     takes=(views.Acknowledgement,), gives=(views.AlarmView,)),
            Endpoint("POST", "/v1/alarms/{id}/silence", self.silence,
                     "Send no messages about this alarm's agent for some minutes.", scope="admin",
                     takes=(views.Silence,), gives=(views.AlarmView,)),
            Endpoint("GET", "/v1/contracts", self.contracts, "The contracts in use.",
                     gives=(list[views.ContractView],)),
            Endpoint("POST", "/v1/contracts", self.add_contract,
                     "Add a contract: a new version, unless it is the same as the newest one.",
                     takes=(ContractSpec,), gives=(views.ContractView,), scope="admin"),
            Endpoint("GET", "/v1/contracts/{name}/health", self.health,
                     "Whether the probabilities of a contract's version come true; by default the "
                     "newest version.", gives=(Health,), query={"version": {"type": "integer",
                     "minimum": 1}}),
            Endpoint("POST", "/v1/contracts/{name}/recalibrate", self.recalibrate,
                     "Base a contract's promises on newer recorded runs: makes a new version.",
                     takes=(views.Recalibration,), gives=(views.ContractView,), scope="admin"),
            Endpoint("GET", "/v1/deliveries", self.deliveries,
                     "Messages about alarms, the newest first.",
                     gives=(views.Page[views.DeliveryView],),
                     query={**_PAGE, "state": {"enum": ["waiting", "sent", "dead"]}}),
            Endpoint("POST", "/v1/deliveries/{id}/retry", self.retry, "Try a dead message again.",
                     gives=(views.Retried,), scope="admin"),
            Endpoint("POST", "/v1/tokens", self.add_token, "Make a token; it cannot be shown "
                                                           "again.",
                     takes=(views.NewToken,), gives=(views.Token,), scope="admin"),
            Endpoint("DELETE", "/v1/tokens/{id}", self.revoke_token, "Revoke a token.",
                     gives=(views.Deleted,), scope="admin"),
            Endpoint("GET", "/v1/episodes.parquet", self.episodes,
                     "Finished runs, ready for ontarget fit.", media="application/octet-stream",
                     query={"contract": _TEXT}),
            Endpoint("GET", "/v1/events", self.events, "All answers, as a stream of events.",
                     media="text/event-stream"),
            Endpoint("GET", "/v1/openapi.json", self.describe, "This description.", scope=None),
            Endpoint("GET", "/livez", self.livez, "Whether the process runs.", scope=None),
            Endpoint("GET", "/readyz", self.readyz, "Whether steps can be accepted.", scope=None),
            Endpoint("GET", "/metrics", self.measured, "Metrics for Prometheus.",
                     media="text/plain"),
        ]  # fmt: skip

    async def steps(self, request: Request, service: Service) -> Response:
        """Accept steps of runs. A JSON array gets one answer per item."""
        body = await body_of(request, service.limits.body_bytes)
        kind = request.headers.get("content-type", "")
        return await self.taking.answer(kind, body, request.state.client)

    async def end(self, request: Request, service: Service) -> Response:
        """End a run by its id."""
        message = await decoded(request, service, EndMessage)
        self.taking.hold_back(request.state.client, 1)
        run = await views.stored_run(service, request.path_params["id"])
        whole = StepMessage(
            agent=run.agent, run=run.run, end=True, **msgspec.structs.asdict(message)
        )
        (reply,) = await self.taking.take([whole])
        self.taking.count([reply], 0.0)
        return response_of(reply)

    async def runs(self, request: Request, service: Service) -> Response:
        """One page of runs."""
        after, limit = views.page_of(request, number=True)
        wanted = request.query_params.get("open")
        found = await run_in_threadpool(
            service.store.runs,
            after=after,
            limit=limit,
            agent=request.query_params.get("agent"),
            ended=None if wanted is None else not views.flag(wanted),
        )
        items = [views.run_view(run, last) for run, last in found]
        return json_response(views.page(items, [run.number for run, _ in found], limit))

    async def run(self, request: Request, service: Service) -> Response:
        """One run with its answers."""
        run = await views.stored_run(service, request.path_params["id"])
        return json_response(await run_in_threadpool(views.history, service, run, request))

    async def why(self, request: Request, service: Service) -> Response:
        """Why a run's p is what it is: what changed p, and similar recorded runs."""
        run = await views.stored_run(service, request.path_params["id"])
        asked = request.query_params.get("step")
        step = None if asked is None else views.whole(asked)
        return json_response(await run_in_threadpool(why, service, run, step))

    async def delete_run(self, request: Request, service: Service) -> Response:
        """Delete a run."""
        run = await views.stored_run(service, request.path_params["id"])
        n = await self.in_writer(lambda: service.forget([run.id]))
        return json_response(views.Deleted(n))

    async def agents(self, request: Request, service: Service) -> Response:
        """One page of agents."""
        after, limit = views.page_of(request, number=False)
        found = await run_in_threadpool(service.store.agents, after=after, limit=limit)
        items = [views.agent_view(one) for one in found]
        return json_response(views.page(items, [one.agent for one in items], limit))

    async def delete_agent(self, request: Request, service: Service) -> Response:
        """Delete an agent with all its runs."""
        agent = request.path_params["agent"]
        n = await self.in_writer(lambda: service.forget(runs_of(service.store, agent)))
        if not n:
            raise Refusal(404, "unknown agent", "no run of this agent is stored")
        return json_response(views.Deleted(n))

    async def alarms(self, request: Request, service: Service) -> Response:
        """One page of alarms."""
        after, limit = views.page_of(request, number=True)
        wanted = request.query_params.get("open")
        return json_response(
            await run_in_threadpool(
                views.alarms_page,
                service,
                after,
                limit,
                None if wanted is None else views.flag(wanted),
                request.query_params.get("run"),
            )
        )

    async def acknowledge(self, request: Request, service: Service) -> Response:
        """Note that somebody has seen an alarm."""
        said = await decoded(request, service, views.Acknowledgement)
        alarm = request.path_params["id"]
        await self.in_writer(lambda: views.acknowledged(service, alarm, said))
        return json_response(await run_in_threadpool(views.alarm, service, alarm))

    async def silence(self, request: Request, service: Service) -> Response:
        """Send no messages about an agent's alarms for a while."""
        said = await decoded(request, service, views.Silence)
        found = await run_in_threadpool(views.alarm, service, request.path_params["id"])
        await self.in_writer(lambda: views.silenced(service, found.agent, said))
        return json_response(found)

    async def contracts(self, request: Request, service: Service) -> Response:
        """The contracts in use; each is a monitor, a target and an alarm rule."""
        return json_response(await self.in_writer(lambda: views.contracts(service)))

    async def add_contract(self, request: Request, service: Service) -> Response:
        """Add a contract: a monitor, a target and an alarm rule."""
        spec = await decoded(request, service, ContractSpec)
        held = await self.in_writer(lambda: service.contracts.add(spec, at=service.clock()))
        return json_response(views.contract_view(held))

    async def health(self, request: Request, service: Service) -> Response:
        """Whether the probabilities of a contract come true in its finished runs."""
        held = self._named(request)
        version = request.query_params.get("version")
        if version is not None:
            number = views.whole(version)
            try:
                held = await run_in_threadpool(
                    self.service.contracts.version, held.spec.name, number
                )
            except InputError as error:
                raise Refusal(404, "unknown version", str(error)) from None
        return json_response(await run_in_threadpool(self._health_of, held))

    async def recalibrate(self, request: Request, service: Service) -> Response:
        """Recalibrate a contract on recorded runs, as a new version of the contract."""
        asked = await decoded(request, service, views.Recalibration)
        held = self._named(request)
        health = await run_in_threadpool(self._health_of, held)
        if asked.since is not None:
            since = asked.since.timestamp()
        else:
            since = max(held.created_at, health.drifted_at or 0.0)
        # Steps are taken meanwhile; only the new version is written where they are.
        monitor = await run_in_threadpool(
            recalibrated, service.store, held, since=since, renew_p=asked.renew_p
        )
        new = await self.in_writer(
            lambda: service.contracts.recalibrated(held, monitor, at=service.clock())
        )
        return json_response(views.contract_view(new))

    async def deliveries(self, request: Request, service: Service) -> Response:
        """One page of messages about alarms."""
        after, limit = views.page_of(request, number=True)
        state = request.query_params.get("state")
        return json_response(
            await run_in_threadpool(views.deliveries_page, service, after, limit, state)
        )

    async def retry(self, request: Request, service: Service) -> Response:
        """Retry immediately a message about an alarm that had been given up."""
        number = views.whole(request.path_params["id"])
        if not await self.in_writer(lambda: try_again(service.store, number, at=service.clock())):
            raise Refusal(
                404, "unknown message", "there is no message with this id that was given up"
            )
        return json_response(views.Retried(number))

    async def add_token(self, request: Request, service: Service) -> Response:
        """Make an access token."""
        wanted = await decoded(request, service, views.NewToken)
        token = await self.in_writer(
            lambda: service.tokens.create(wanted.scopes, note=wanted.note, at=service.clock())
        )
        return json_response(views.Token(token))

    async def revoke_token(self, request: Request, service: Service) -> Response:
        """Delete an access token."""
        number = request.path_params["id"]
        if not await self.in_writer(lambda: service.tokens.revoke(number)):
            raise Refusal(404, "unknown token", "there is no token with this id")
        return json_response(views.Deleted(1))

    async def episodes(self, request: Request, service: Service) -> Response:
        """The finished runs of a contract as a Parquet file."""
        name = request.query_params.get("contract")
        found = await run_in_threadpool(views.episodes, service, name)
        return Response(found, media_type="application/octet-stream")

    async def events(self, request: Request, service: Service) -> Response:
        """The answers to all steps, as a stream of events."""
        return self.streams.response(request)

    async def describe(self, request: Request, service: Service) -> Response:
        """The OpenAPI document that describes this API."""
        return json_response(described(self.endpoints()))

    async def livez(self, request: Request, service: Service) -> Response:
        """Answer that the process runs."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request, service: Service) -> Response:
        """Answer whether steps can be accepted now; only a token that may read is told why not."""
        trouble = await run_in_threadpool(service.trouble)
        if trouble:
            detail = trouble if await holds_token(request, service, "read") else ""
            return problem_response(Problem(status=503, title="not ready", detail=detail))
        return json_response({"status": "ok"})

    async def measured(self, request: Request, service: Service) -> Response:
        """Metrics for Prometheus."""
        await run_in_threadpool(self._gauge)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def in_writer(self, work: Callable[[], T]) -> T:
        """Run a function in the thread that writes to the database; return its result."""
        found: T = await asyncio.wrap_future(self.service.writer.run(work))
        return found

    def _named(self, request: Request) -> Held:
        name = request.path_params["name"]
        if name not in self.service.contracts.names:
            raise Refusal(404, "unknown contract", "there is no contract of this name")
        return self.service.contracts.named(name)

    def _health_of(self, held: Held) -> Health:
        with self._health_lock:  # a guard is for one thread at a time
            watch = self._health.get(held.id)
            if watch is None:
                watch = self._health[held.id] = HealthWatch(self.service.store, held)
            return watch.health()

    def _gauge(self) -> None:
        service, metrics = self.service, self.metrics
        metrics.ready.set(not service.trouble())
        counted = views.counts(service.store)
        metrics.open_runs.set(counted["runs"])
        metrics.open_alarms.set(counted["alarms"])
        for state in ("waiting", "sent", "dead"):
            metrics.deliveries.labels(state).set(counted.get(state, 0))
        for name in service.contracts.names:
            verdict = self._health_of(service.contracts.named(name)).verdict
            for one in ("calibrated", "drifting", "too few runs", "closed"):
                metrics.health.labels(name, one).set(one == verdict)


def create_app(service: Service, *, open_to_all: bool = True) -> Starlette:
    """The service as a web application (ASGI)."""
    api = Api(service)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if service.courier.added:  # not after every write: the courier writes too
                woken.set()
            api.streams.wake()

        def committed() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(wake)

        service.listeners.append(committed)
        tasks = [
            asyncio.create_task(service.courier.work(api.in_writer, woken)),
            asyncio.create_task(chores(service, api.in_writer)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            service.listeners.remove(committed)
            await run_in_threadpool(service.close)

    routes = [
        Route(one.path, answered(one, service, open_to_all=open_to_all), methods=[one.method])
        for one in api.endpoints()
    ]
    routes += page_routes(service, open_to_all=open_to_all)
    app = _App(routes=routes, lifespan=life, exception_handlers={404: _missing, 405: _missing})
    app.state.api = api
    return app


class _App(Starlette):
    """The web application, with a shortcut for requests with steps, the most frequent kind."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == _STEPS and scope["method"] == "POST":
            response = await self.routes[0].endpoint(Request(scope, receive))  # type: ignore[attr-defined]
            await response(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    title = "not found" if status == 404 else "wrong method"
    headers = getattr(error, "headers", None)
    return problem_response(Problem(status=status, title=title), headers)
