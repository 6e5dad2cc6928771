"""Says in the live view that p has become too high, judged by runs that end meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ontarget._numerals import percent
from ontarget.errors import OntargetError

if TYPE_CHECKING:
    from ontarget.drift import DriftGuard

_SILENT: Final = 200  # runs that ended since an open one was heard of: nobody waits for it longer
_MOST_OPEN: Final = 10_000


@dataclass
class _Open:
    """A run that has not ended: its name, p at its start, and when its agent last reported."""

    name: str
    p: float | None
    heard: int


@dataclass
class ChangeHint:
    """Compares p at the start of runs with how they ended, and says when p has become too high.

    It uses a harm guard, a statistical test (method M26 in docs/methods.md). If every run that
    begins is counted and nothing changes, such a test speaks up in at most one case of a hundred.
    Here that is not promised: runs that fall silent are left out, and these may be unlike the
    others. Runs that somebody took over do not count either.

    Parameters
    ----------
    make
        A function that makes the guard when the first run begins. A monitor that cannot have a
        guard gives no hint.
    """

    make: Callable[[], DriftGuard]
    in_words: str = ""
    _guard: DriftGuard | None = None
    _given_up: bool = False
    _open: dict[str, _Open] = field(default_factory=dict)
    _begun: int = 0
    _ended: int = 0
    _said: float = 0.0
    _met: int = 0

    def update(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer about a run."""
        if self._given_up or self.in_words or "agent" not in answer:
            return
        try:
            self._take(str(answer["agent"]), answer)
        except OntargetError:  # this monitor has nothing to compare with
            self._given_up = True
        if self._given_up or len(self._open) >= _MOST_OPEN:  # of which hardly any end
            self._given_up, self._guard = True, None
            self._open.clear()

    def _take(self, agent: str, answer: Mapping[str, Any]) -> None:
        over = bool(answer.get("end")) or answer["status"] == "DONE"
        run, t = self._open.get(agent), answer.get("t")
        if run is not None and t == 0 and not over:  # its last run never ended
            self._drop(agent)
            run = None
        if run is None and over:  # a second end of the same run
            return
        if run is None:
            run = self._begin(agent, answer.get("p") if t == 0 else None)
        run.heard = self._ended
        if over:
            self._end(agent, run, answer)

    def _begin(self, agent: str, p: float | None) -> _Open:
        if self._guard is None:
            self._guard = self.make()
        self._begun += 1
        run = self._open[agent] = _Open(f"{self._begun}", p, self._ended)
        self._guard.begin(run.name)
        return run

    def _end(self, agent: str, run: _Open, answer: Mapping[str, Any]) -> None:
        assert self._guard is not None
        p, met = run.p, answer.get("p")
        if p is None or met not in (0.0, 1.0) or answer.get("intervened"):
            self._drop(agent)
            return
        del self._open[agent]
        self._ended += 1
        self._said, self._met = self._said + p, self._met + int(met)
        reading = self._guard.note(run.name, p - met)
        if self._ended % _SILENT == 0:  # not at every end: there may be thousands of open runs
            limit = self._ended - _SILENT
            for silent in [one for one, at in self._open.items() if at.heard <= limit]:
                reading = self._drop(silent)
        if reading.alarm:
            self.in_words = (
                f"p has become too high: of {self._ended:,} runs that ended here, "
                f"{percent(self._met / self._ended, fixed=True)} met the target, and p had said "
                f"{percent(self._said / self._ended, fixed=True)} at their start. What was "
                "promised need not hold; `ontarget drift` tells more"
            )

    def _drop(self, agent: str) -> Any:
        assert self._guard is not None
        return self._guard.withdraw(self._open.pop(agent).name)
