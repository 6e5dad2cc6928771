"""``ontarget demo``: a simulated river, and with ``--serve`` a fleet of them on a live page."""

from __future__ import annotations

import math
import random
import sys
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any, Final

from ontarget._package import require
from ontarget._progress import working
from ontarget._text import number, percent, plain
from ontarget.cli.options import option
from ontarget.cli.output import check_folder, print_facts
from ontarget.cli.replay import by_name

if TYPE_CHECKING:
    from rich.console import Console

    from ontarget import Episodes, Evaluation, Watch

_TARGET = "-60:"
_PAUSE = 0.12  # seconds between steps of the replay, on a terminal
_RIVERS: Final = 40
_RECORDED: Final = 1_500  # simulated runs that the monitor of the page learns from
_BEAT: Final = 0.5  # seconds between two batches of reports
_REPORTING: Final = 0.6  # the share of rivers that reports in a batch
_BEGUN: Final = 400  # finished runs that the page finds when it opens


def demo(
    folder: Annotated[
        Path, option("The folder for the episodes, the model and the report.", "FOLDER")
    ] = Path("ontarget-demo"),
    episodes: Annotated[
        int, option("How many episodes to simulate.", "N", "--episodes", "-n", min=200)
    ] = 6_000,
    seed: Annotated[int, option("Another seed gives other runs.", "N", min=0)] = 0,
    serve: Annotated[
        bool, option("Serve the live page of a fleet of rivers instead.", "", "--serve")
    ] = False,
    port: Annotated[int, option("The port of the live page.", "N", min=1, max=65535)] = 8400,
) -> None:
    """Simulate a river, fit a monitor, and watch a run that goes wrong."""
    from time import perf_counter

    import numpy as np
    from rich.console import Console

    from ontarget import GoalMonitor, Target
    from ontarget.cli.evaluate import reliability_table
    from ontarget.domains import simulate

    console = Console(highlight=False)
    start = perf_counter()
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    target = Target.parse(_TARGET)
    if serve:
        _serve_fleet(console, folder, _TARGET, port=port, seed=seed)
        return
    _say(console, "1. Record", "A crew fights an invasive plant along a river, 50 steps a run.")
    recorded = simulate("tamarisk", episodes, seed)
    parts = recorded.split(learn=2 / 3, assure=1 / 6, seed=seed)
    assert parts.rest is not None
    kept = ~np.isin(recorded.ids, parts.rest.ids)
    recorded.take(kept).write(folder / "runs.parquet")
    parts.rest.write(folder / "new.parquet")
    _dim(console, recorded.describe())

    _say(console, "2. Fit", f"Will a run's total reward end in {target}?")
    monitor = GoalMonitor(policy="tamarisk, fixed policy").fit(split=parts, seed=seed)
    monitor.save(folder / "river.ontarget")
    _dim(console, monitor.fitted.trained.in_words)

    _say(console, "3. Check", f"on {len(parts.rest):,} runs that it has never seen.")
    found = monitor.evaluate(parts.rest, target, progress=True)
    with working("drawing the report"):
        found.report(folder / "report.html", name="river.ontarget")
    _dim(console, found.summary())
    console.print(reliability_table(found), style="dim")

    _say(console, "4. Watch", "a run that misses the target; 5 % false alarms are promised.")
    run = found.episodes.take([_dramatic(found)])
    _replay(console, monitor.watch(target, false_alarm_rate="0.05"), run)
    _next(console, folder, str(run.ids[0]), perf_counter() - start)


def _say(console: Console, title: str, text: str) -> None:
    console.print(f"\n[bold]{title}[/] {text}")


def _dim(console: Console, text: str) -> None:
    print_facts(text, console, style="dim")


def _next(console: Console, folder: Path, run: str, seconds: float) -> None:
    model, new = folder / "river.ontarget", folder / "new.parquet"
    console.print(f"\nDone in {seconds:.0f} s. The report:", end=" ")
    console.print(plain(folder / "report.html"), style="bold", markup=False)
    console.print("\nNext, with these files or your own:", style="dim")
    for line in (
        *_activation(),
        f"ontarget inspect {model}",
        f"ontarget evaluate {model} {new} --target {_TARGET}",
        f"ontarget watch {model} --target {_TARGET} --replay {new} --run {run}",
        f"ontarget fit {folder / 'runs.parquet'} -o mine.ontarget",
        "ontarget plan --accuracy 0.02 --false-alarm-rate 0.05",
        "ontarget demo --serve",
    ):
        console.print(f"   {plain(line)}", soft_wrap=True, markup=False)


def _activation() -> list[str]:
    """The shell command, as a list of lines, that puts ``ontarget`` on the path.

    It is empty if ``ontarget`` is there already.
    """
    script = Path(sys.prefix) / "bin" / "activate"
    if which("ontarget") or not script.exists():
        return []
    here = Path.cwd()
    return [f". {script.relative_to(here) if script.is_relative_to(here) else script}"]


def _replay(console: Console, watch: Watch, run: Episodes) -> None:
    if console.is_terminal:
        _draw(console, watch, run)
    else:
        for answer in _lived(watch, run):
            if answer["t"] < 4 or answer["changed"]:
                _dim(console, _line(answer))
    raised = [change.t for change in watch.changes if change.status.name == "ALARM"]
    if raised:
        early = int(run.lengths[0]) - raised[0]
        console.print(f"First alarm at step {raised[0]}, {early} steps before the end.")


def _draw(console: Console, watch: Watch, run: Episodes) -> None:
    from time import sleep

    from rich.live import Live

    from ontarget.cli.view import LiveView

    earned = 0.0
    view = LiveView(
        watch.contract, f"episode {run.ids[0]}", so_far=lambda agent: f"so far {number(earned)}"
    )
    with Live(view, console=console, refresh_per_second=20):
        for answer in _lived(watch, run):
            earned = round(answer["earned"], 2)
            view.update(answer)
            sleep(_PAUSE)


def _dramatic(found: Evaluation) -> int:
    """The position of a failing run to show: the one whose first alarm came latest."""
    import numpy as np

    from ontarget import Promised
    from ontarget.errors import FewEpisodesError

    missed = np.flatnonzero(~found.met)
    if not missed.size:
        return 0
    try:
        first = found.alarms(Promised()).first[missed]
    except FewEpisodesError:
        return int(missed[0])
    return int(missed[np.argmax(first)])


def _lived(watch: Watch, run: Episodes) -> Any:
    """The watch's answer to each step of a recorded run, with the reward earned so far."""
    earned, status, length = 0.0, "", int(run.lengths[0])
    for t in range(length + 1):
        reward = float(run.rewards_at(t - 1)[0]) if t else 0.0
        earned += reward
        outlook = watch.step(run.at(t).states[0], reward) if t < length else watch.end(reward)
        changed, status = outlook.status.name != status, outlook.status.name
        yield outlook._asdict() | {
            "agent": "",
            "status": status,
            "earned": earned,
            "changed": changed,
        }


def _line(answer: dict[str, Any], width: int = 30) -> str:
    p = answer["p"]
    filled = 0 if math.isnan(p) else round(width * p)
    return (
        f"t = {answer['t']:2d}  earned {answer['earned']:7.2f}  "
        f"{'█' * filled + '·' * (width - filled)} {percent(p, fixed=True):>7}  {answer['status']}"
    )


def _serve_fleet(console: Console, folder: Path, target: str, *, port: int, seed: int) -> None:
    """Run a service with a web page, and simulated rivers that report to it, until stopped."""
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
