"""A process that writes files again and again, each time interrupted at a chosen point.

    python -m tests.attacks.interrupted FOLDER

Each file stands in a folder of its own. A line of input asks for one attempt, as JSON with the
name of the ``"file"`` and the point:

- ``{"at": "call", "point": k, "how": "kill"}``: before the k-th call that changes the folder or
  brings it to the disk: open to write, chmod, rename, remove, mkdir, fsync.
- ``{"at": "byte", "point": n, "how": "kill"}``: at the write that would take a file past n bytes,
  whichever library makes it.
- ``{"at": "instant", "point": seconds, "how": "kill"}``: then, wherever the work is.
- nothing more: not at all.

With ``"fail"`` in place of ``"kill"`` the call or write fails as on a full disk. Each line of
output says how an attempt ended. An attempt is a fork of this process, so it starts at once.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ontarget import GoalMonitor, Target
from ontarget.errors import OntargetError
from ontarget.live.rules import Below
from ontarget.models import Marginal
from ontarget.report import evaluation as report
from ontarget.report.page import report_page
from tests.walks import walks

FILES = (
    "model.ontarget", "fit.ontarget", "runs.csv", "runs.parquet", "report.html", "guard.json",
)  # fmt: skip
CHANGES = ("os.chmod", "os.mkdir", "os.remove", "os.rename")
RUNS = walks(120, horizon=4)


def fitted(checkpoint: Path | None = None) -> GoalMonitor:
    """A small monitor, one block per step."""
    monitor = GoalMonitor(Marginal(), steps_per_model=1, min_calibration=5)
    return monitor.fit(RUNS, checkpoint=checkpoint, progress=False)


def drawn(evaluation: report.Evaluation, kept: Path) -> str:
    """The report's page, drawn in a fork: polars hangs in forks of a process that has used it."""
    child = os.fork()
    if child == 0:
        try:
            kept.write_text(report_page(evaluation, Below(0.5)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return kept.read_text()


def works(folder: Path) -> dict[Path, Callable[[], object]]:
    """What writes each file; all that it needs is made before."""
    model, fit, csv, parquet, html, kept = (folder / n / n for n in FILES)
    monitor = fitted()
    evaluation = monitor.evaluate(RUNS, Target.at_least(0.0))
    page = drawn(evaluation, folder / "page.html")
    report.report_page = lambda *_: page  # drawn once: only its writing is interrupted
    guard = monitor.drift_guard()
    return {
        model: lambda: monitor.save(model),
        fit: lambda: fitted(fit.parent / "blocks").save(fit),
        csv: lambda: RUNS.write(csv),
        parquet: lambda: RUNS.write(parquet),
        html: lambda: evaluation.report(html),
        kept: lambda: guard.save(kept),
    }


class Calls:
    """Counts the calls that change a folder; kills the process or fails at a chosen one."""

    def __init__(self, folder: Path, point: float, how: str) -> None:
        self._folder, self._point, self._how = str(folder), point, how
        self.count, self._fsync = 0, os.fsync
        os.fsync = self._synced
        sys.addaudithook(self._audited)

    def _synced(self, descriptor: int) -> None:
        self._called()
        self._fsync(descriptor)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        written = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event == "os.mkdir" and Path(arguments[0]).is_dir():
            return  # nothing is made, and so nothing can fail
        if (written or event in CHANGES) and self._folder in str(arguments[0]):
            self._called()

    def _called(self) -> None:
        self.count += 1
        if self.count == self._point:
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def attempt(work: Callable[[], object], folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """How one attempt ended; the number of calls and the seconds that it took."""
    at, point, how = asked.get("at"), asked.get("point", 0), asked.get("how", "")
    read, write = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        calls = Calls(folder, point if at == "call" else 0, how)
        if at == "byte":
            if how == "kill":  # Python ignores the signal; by default it ends a process at once
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (point, point))
        ending = "done"
        try:
            work()
        except (OntargetError, OSError) as error:
            ending = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps([ending, calls.count]).encode())
        os._exit(0)
    os.close(write)
    if at == "instant":
        time.sleep(point)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with os.fdopen(read, "rb") as told:
        ending, calls = json.loads(told.read() or '["killed", 0]')
    assert (ending == "killed") == os.WIFSIGNALED(status) or at == "instant", status
    return {"ending": ending, "calls": calls, "seconds": time.monotonic() - began}


def main(folder: Path) -> None:
    """Make the attempts that are asked for on standard input."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    known = {path.name: (path.parent, work) for path, work in works(folder).items()}
    for line in sys.stdin:
        asked = json.loads(line)
        place, work = known[asked["file"]]
        sys.stdout.write(json.dumps(attempt(work, place, asked)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
