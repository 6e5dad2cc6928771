"""A monitor kept up: guarded against drift, and recalibrated on runs that start after it (M26)."""

from __future__ import annotations

from itertools import islice
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
    runs from before the alarm would break every promise. Once the first of them, by their start,
    are all over, `monitor` is the recalibrated one, with a new guard. In between, watches say that
    they are in the regime ``"restart"``: they still work, and promise nothing.

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
        self._under_way: set[object] = set()  # begun while nothing had alarmed, not yet over
        # Begun after the alarm, by start; None until they are over.
        self._fresh: dict[object, Episodes | None] = {}
        self.monitor = monitor
        self.guard: DriftGuard = monitor.drift_guard(**self._options)

    @property
    def regime(self) -> str:
        """What a watch made now rests on: ``"exchangeable"``, or ``"restart"`` after an alarm."""
        return RESTART if self.guard.reading.alarm else "exchangeable"

    @property
    def missing(self) -> int:
        """How many more runs the next monitor needs; 0 while no alarm was raised."""
        over = sum(one is not None for one in self._first)
        return self._needed - over if self.regime == RESTART else 0

    @property
    def _first(self) -> list[Episodes | None]:
        """The runs to recalibrate on: those that started first, not those that ended first."""
        return list(islice(self._fresh.values(), self._needed))

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

    def withdraw(self, episode_id: object) -> str:
        """The regime after an announced run was taken back, because it will not be observed."""
        if self.regime != RESTART:
            self.guard.withdraw(episode_id)
        elif episode_id not in self._under_way:
            if episode_id not in self._fresh or self._fresh[episode_id] is not None:
                raise InputError(
                    "withdraw needs an episode that was announced by begin and not observed, got "
                    f"{episode_id!r}"
                )
            del self._fresh[episode_id]
            self._recalibrate()
        self._under_way.discard(episode_id)
        return self.regime

    def observe(self, episodes: Episodes) -> str:
        """The regime after these finished runs, in the order in which they started."""
        for i in range(len(episodes)):
            self._observe(episodes.take([i]))
        return self.regime

    def _observe(self, one: Episodes) -> None:
        (name,) = one.ids.tolist()
        started_before = name in self._under_way
        self._under_way.discard(name)
        if self.regime != RESTART:
            self.guard.observe(one)
        elif not started_before:
            if self._announced and name not in self._fresh:
                raise InputError(f"episode {name!r} never began; announce all with begin, or none")
            self._fresh[name] = one
            self._recalibrate()

    def _recalibrate(self) -> None:
        """Go on with a new monitor, once enough runs are over."""
        if self.missing:
            return
        first, later = self._first, list(self._fresh.items())[self._needed :]
        together = Episodes.concat([one for one in first if one is not None])
        self.monitor = self.monitor.recalibrate(together, renew_p=self._renew_p)
        self.guard = self.monitor.drift_guard(**self._options)
        self._fresh = {}
        for name, _ in later:
            self.begin(name)
        for _, one in later:
            if one is not None:
                self._observe(one)
