"""``ontarget demo --serve``: many simulated rivers report to a service with a web page."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ontarget._package import require
from ontarget.cli.replay import by_name

if TYPE_CHECKING:
    from rich.console import Console

    from ontarget import Episodes

_RIVERS: Final = 40
_RECORDED: Final = (
    1_500  # simulated runs that the monitor learns from: enough for a page to look at
)
_BEAT: Final = 0.5  # seconds between two batches of reports
_REPORTING: Final = 0.6  # the share of rivers that reports in a batch
_BEGUN: Final = 400  # finished runs that the page finds when it opens


def serve_fleet(console: Console, folder: Path, target: str, *, port: int, seed: int) -> None:
    """Run a service with a web page, and simulated rivers that report to it, until stopped.

    Parameters
    ----------
    console
        Where to print messages.
    folder
        The folder for the model and the database.
    target
        The outcomes that a run should end in.
    port
        The port to listen on, on this machine.
    seed
        Another seed gives other runs.
    """
    for name in ("msgspec", "starlette", "uvicorn", "httpx"):
        require(name, extra="service")
    from ontarget import GoalMonitor
    from ontarget.domains import simulate
    from ontarget.service.contracts import ContractSpec
    from ontarget.service.service import Service
    from ontarget.service.web.server import serve_on

    console.print(f"[bold]1. Record and fit[/] {_RECORDED:,} runs of a river")
    model = folder / "fleet.ontarget"
    GoalMonitor(policy="tamarisk, fixed policy").fit(simulate("tamarisk", _RECORDED, seed)).save(
        model
    )
    spec = ContractSpec(
        name="river", model=str(model), target=target, false_alarm_rate=0.05, unit="points"
    )
    service = Service(str(folder / "fleet.db"), [spec], models=folder / "models")
    url = f"http://127.0.0.1:{port}"
    stop = threading.Event()
    fleet = threading.Thread(target=_report, args=(url, seed, stop), daemon=True)

    def started() -> None:
        fleet.start()
        console.print(f"[bold]2. Watch[/] {_RIVERS} rivers report now. Open {url}/")
        console.print("Ctrl-C stops it.", style="dim")

    try:
        serve_on(service, port=port, started=started)
    finally:
        stop.set()


def _report(url: str, seed: int, stop: threading.Event) -> None:
    """Report the steps of simulated runs to the service at ``url`` until ``stop`` is set."""
    from ontarget.client import Client
    from ontarget.domains import simulate
    from ontarget.errors import OntargetError

    runs = simulate("tamarisk", 2_000, seed + 1, progress=False)
    draw, numbers = random.Random(seed), count()
    began = f"{draw.getrandbits(32):08x}"

    def begin(k: int) -> Iterator[dict[str, Any]]:
        number = next(numbers)
        name = f"{began}-{number:04d}"
        return _messages(runs, number % len(runs), agent=f"river {k:02d}", run=name)

    with Client(url, offline=True) as client:
        try:
            past = [message for k in range(_BEGUN) for message in begin(k % _RIVERS)]
            for start in range(0, len(past), 1_000):
                client.report(past[start : start + 1_000])
            under_way = [begin(k) for k in range(_RIVERS)]
            for one in under_way:  # not all at the same step
                client.report(list(islice(one, draw.randrange(1, 40))))
            while not stop.wait(_BEAT):
                sent = []
                for k, one in enumerate(under_way):
                    if draw.random() < _REPORTING:
                        message = next(one, None)
                        if message is None:
                            under_way[k] = begin(k)
                        else:
                            sent.append(message)
                client.report(sent)
        except OntargetError:
            return  # the service has gone, and the page with it


def _messages(runs: Episodes, i: int, *, agent: str, run: str) -> Iterator[dict[str, Any]]:
    """The messages that the agent of one simulated run would send, step by step.

    ``i`` is the position of the run in ``runs``; ``agent`` and ``run`` are the names to send.
    """
    one = runs.take([i])
    reward = 0.0
    for t in range(one.horizon):
        state = by_name(runs.schema, one.at(t).states[0])
        yield {"agent": agent, "run": run, "step": t, "state": state, "reward": reward}
        reward = float(one.rewards_at(t)[0])
    yield {"agent": agent, "run": run, "step": one.horizon, "reward": reward, "end": True}
