"""A monitor kept up: guarded against drift, and recalibrated on runs that start after it (M26)."""

from __future__ import annotations

from typing import Any, Final, Unpack

from ontarget._arguments import whole_number
from ontarget.conformal._levels import Level
from ontarget.drift.guard import DriftGuard
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.live.watch import Watch
from ontarget.monitor._asked import AlarmOptions
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

__all__ = ["Upkeep"]

RESTART: Final = "restart"


class Upkeep:
    """A monitor that restarts after drift: it discards what came before, and recalibrates.

    Finished runs go to a drift guard. Its alarm ends the old regime. From then on runs that
    **started** after the alarm are collected, and those that were under way are left out: using
    runs from before the alarm would break every promise. With enough of them, `monitor` is the
    recalibrated one, with a new guard. In between, watches say that they are in the regime
    ``"restart"``: they still work, and promise nothing.

    Parameters
    ----------
    monitor
        A fitted monitor.
    episodes_needed
        On how many new runs to recalibrate.
    level, t
        As for `GoalMonitor.drift_guard`.
    renew_p
        As for `GoalMonitor.recalibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Episodes, GoalMonitor
    >>> from ontarget.monitor import Upkeep
    >>> rng = np.random.default_rng(0)
    >>> def walks(n, first, drift=0.0):
    ...     gains = rng.normal(drift, 1.0, size=(n, 3))
    ...     return Episodes.from_arrays(np.zeros((n, 3, 1)), gains, ids=np.arange(n) + first)
    >>> upkeep = Upkeep(GoalMonitor().fit(walks(300, 0), progress=False), episodes_needed=60)
    >>> for first in range(1000, 1200):
    ...     if upkeep.observe(walks(1, first, drift=1.0)) == "restart":
    ...         break
    >>> first < 1050, upkeep.observe(walks(60, 2000, drift=1.0)), upkeep.monitor.sizes["assure"]
    (True, 'exchangeable', 60)
    """

    def __init__(
        self,
        monitor: GoalMonitor,
        *,
        episodes_needed: int = 100,
        level: Level = 0.99,
        t: int = 0,
        renew_p: bool = False,
    ) -> None:
        self._needed = whole_number("episodes_needed", episodes_needed, least=1)
        self._options: dict[str, Any] = {"level": level, "t": t}
        self._renew_p = renew_p
        self._announced = False
        self._fresh: dict[object, None] = {}  # begun after the alarm, not yet over, by start
        self._under_way: set[object] = set()  # begun before it
        self.monitor = monitor
        self.guard: DriftGuard = monitor.drift_guard(**self._options)
        self.collected: list[Episodes] = []

    @property
    def regime(self) -> str:
        """What a watch made now rests on: ``"exchangeable"``, or ``"restart"`` after an alarm."""
        return RESTART if self.guard.reading.alarm else "exchangeable"

    @property
    def missing(self) -> int:
        """How many more runs the next monitor needs; 0 while no alarm was raised."""
        return self._needed - sum(map(len, self.collected)) if self.regime == RESTART else 0

    def watch(self, target: Target, **options: Unpack[AlarmOptions]) -> Watch:
        """A watch of the present monitor, which says what regime it is in."""
        found = self.monitor.watch(target, **options)
        found.regime = found.regime if self.regime != RESTART else RESTART
        return found

    def begin(self, episode_id: object) -> None:
        """Announce a run that starts now; needed where runs overlap in time."""
        self._announced = True
        if self.regime == RESTART:
            self._fresh[episode_id] = None
        else:
            self.guard.begin(episode_id)
            self._under_way.add(episode_id)

    def observe(self, episodes: Episodes) -> str:
        """The regime after these finished runs, in the order in which they started."""
        for i in range(len(episodes)):
            self._observe(episodes.take([i]))
        return self.regime

    def _observe(self, one: Episodes) -> None:
        (name,) = one.ids.tolist()
        if self.regime != RESTART:
            self._under_way.discard(name)
            self.guard.observe(one)
            return
        if name in self._under_way:
            self._under_way.discard(name)  # it started before the alarm
            return
        if self._announced and name not in self._fresh:
            raise InputError(f"episode {name!r} never began; announce all with begin, or none")
        self._fresh.pop(name, None)
        self.collected.append(one)
        if not self.missing:
            together = Episodes.concat(self.collected)
            self.monitor = self.monitor.recalibrate(together, renew_p=self._renew_p)
            self.guard = self.monitor.drift_guard(**self._options)
            for waiting in self._fresh:
                self.guard.begin(waiting)
            self._under_way, self._fresh, self.collected = set(self._fresh), {}, []
