"""`Upkeep`: a monitor with a test for drift, which is recalibrated after drift.

See method M26 in docs/methods.md.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, Unpack
from weakref import WeakSet

from ontarget._arguments import whole_number
from ontarget._whole_file import write_whole
from ontarget.conformal._levels import Level
from ontarget.drift._kept import check_ids, damage_named, digest_of
from ontarget.drift.guard import DriftGuard
from ontarget.episodes import Episodes
from ontarget.errors import CensoredError, InputError, ModelFileError
from ontarget.live.watch import Watch
from ontarget.monitor._held import AlarmOptions
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

RESTART: Final = "restart"
UPKEEP_FORMAT: Final = 1
_FILE: Final = "upkeep.json"


class Upkeep:
    """A monitor that is recalibrated after drift, on runs that started after the drift alarm.

    Pass finished runs to `observe`. A drift guard (a test for a change) compares them with the
    recorded runs. After an alarm of the guard, runs that **start** later are collected. Runs that
    were under way at the alarm are left out, because they would break every promise. As soon as the
    first ``episodes_needed`` of the later runs, by their start, have all ended, `monitor` is a
    recalibrated monitor with a new guard. Until then, watches have the regime ``"restart"``: they
    still work, but nothing is promised. Watches of the old monitor keep that regime; make new
    watches.

    `save` writes the monitor, the guard and the collected runs to a folder, and `load` continues
    from there in another process.

    Parameters
    ----------
    monitor
        A fitted monitor.
    episodes_needed
        How many new runs to recalibrate on.
    level, t
        As for `GoalMonitor.drift_guard`.
    renew_p
        As for `GoalMonitor.recalibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Episodes, GoalMonitor
    >>> from ontarget.monitor.upkeep import Upkeep
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
        self._watches: WeakSet[Watch] = WeakSet()  # those of the present monitor
        self._renew_p = renew_p
        self._announced = False
        self._under_way: set[object] = set()  # runs that began before any alarm and are not over
        # Runs that began after the alarm, in order of start; None until they are over.
        self._fresh: dict[object, Episodes | None] = {}
        self.monitor = monitor
        self.guard: DriftGuard = monitor.drift_guard(**self._options)

    @property
    def regime(self) -> str:
        """Whether promises hold: ``"exchangeable"`` (no drift was noticed), or ``"restart"``.

        After drift it is ``"restart"``, and nothing is promised.
        """
        return RESTART if self.guard.reading.alarm else "exchangeable"

    @property
    def missing(self) -> int:
        """How many more finished runs are needed to recalibrate; 0 if no drift was noticed."""
        over = sum(one is not None for one in self._first)
        return self._needed - over if self.regime == RESTART else 0

    @property
    def _first(self) -> list[Episodes | None]:
        """The runs to recalibrate on: the first ones that started after the drift alarm.

        The entry of a run that has not ended yet is None.
        """
        return list(islice(self._fresh.values(), self._needed))

    def watch(self, target: Target, **options: Unpack[AlarmOptions]) -> Watch:
        """A watch of the present monitor.

        Its ``regime`` says whether its promises hold: "exchangeable", or "restart" (no) after
        drift.
        """
        found = self.monitor.watch(target, **options)
        self._watches.add(found)
        self._tell_watches()
        return found

    def _tell_watches(self) -> None:
        """Tell all watches, after a drift alarm, that their promises no longer hold."""
        if self.regime == RESTART:
            for watch in self._watches:
                watch.regime = RESTART

    def begin(self, episode_id: object) -> None:
        """Announce a run that starts now; needed if runs overlap in time."""
        self._announced = True
        if self.regime == RESTART:
            self._fresh[episode_id] = None
        else:
            self.guard.begin(episode_id)
            self._under_way.add(episode_id)

    def withdraw(self, episode_id: object) -> str:
        """Take back an announced run that will not be observed; returns the regime.

        The regime is ``"exchangeable"`` or, after drift, ``"restart"``.
        """
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
        """Pass on finished runs, in the order in which they started; returns the regime.

        The regime is ``"exchangeable"`` or, after drift, ``"restart"``.
        """
        for i in range(len(episodes)):
            self._observe(episodes.take([i]))
        return self.regime

    def _observe(self, one: Episodes) -> None:
        (name,) = one.ids.tolist()
        if one.cut_off.any():
            raise CensoredError(
                f"episode {name!r} was cut off, and a drift guard needs runs that were not; "
                "withdraw it, or recalibrate the monitor yourself"
            )
        started_before = name in self._under_way
        self._under_way.discard(name)
        if self.regime != RESTART:
            self.guard.observe(one)
            self._tell_watches()
        elif not started_before:
            if self._announced and name not in self._fresh:
                raise InputError(
                    f"episode {name!r} was not announced; announce every episode "
                    f"with begin, or none"
                )
            self._fresh[name] = one
            self._recalibrate()

    def _recalibrate(self) -> None:
        """Recalibrate the monitor if enough runs that started after the drift alarm are over."""
        if self.missing:
            return
        first, later = self._first, list(self._fresh.items())[self._needed :]
        together = Episodes.concat([one for one in first if one is not None])
        self.monitor = self.monitor.recalibrate(together, renew_p=self._renew_p)
        self.guard = self.monitor.drift_guard(**self._options)
        self._fresh, self._watches = {}, WeakSet()
        for name, _ in later:
            self.begin(name)
        for _, one in later:
            if one is not None:
                self._observe(one)

    def save(self, folder: str | Path) -> None:
        """Write the monitor, its test for drift and the runs collected so far to a folder.

        The file ``upkeep.json`` is written last, in one step: if the process dies before that, the
        folder still has the previous save. Episode ids need to be texts or whole numbers.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        check_ids([*self._under_way, *self._fresh], "upkeep")
        guard = self.guard.to_json()
        model = f"monitor-{digest_of(self.monitor.fitted)}.ontarget"
        if not (place / model).exists():
            self.monitor.save(place / model)
        over = {name: one for name, one in self._fresh.items() if one is not None}
        runs = ""
        if over:
            text = json.dumps(list(over)).encode()
            runs = f"runs-{blake2b(text, digest_size=16).hexdigest()}.parquet"
            Episodes.concat(list(over.values())).write(place / runs)
        kept = {
            "format": UPKEEP_FORMAT,
            "monitor": model,
            "runs": runs,
            "level": str(self._options["level"]),
            "t": self._options["t"],
            "episodes_needed": self._needed,
            "renew_p": self._renew_p,
            "announced": self._announced,
            "under_way": list(self._under_way),
            "fresh": list(self._fresh),
            "guard": guard,
        }
        write_whole(place / _FILE, [json.dumps(kept).encode()])
        for stale in {*place.glob("monitor-*.ontarget"), *place.glob("runs-*.parquet")}:
            if stale.name not in (model, runs):
                with suppress(OSError):  # another process may still be reading it
                    stale.unlink()

    @classmethod
    def load(cls, folder: str | Path) -> Upkeep:
        """The `Upkeep` that `save` wrote; make new watches with it."""
        path = Path(folder) / _FILE
        try:
            kept: dict[str, Any] = json.loads(path.read_bytes())
            version = kept["format"]
        except OSError as error:
            raise ModelFileError(f"{path}: the file cannot be read: {error.strerror}") from error
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: this is not a file that Upkeep.save wrote") from error
        if version != UPKEEP_FORMAT:
            raise ModelFileError(
                f"{path}: the file needs format {UPKEEP_FORMAT}, got {version!r}; start a new "
                f"Upkeep"
            )
        with damage_named(path, "upkeep"):
            # Only the file's name is used, so that a forged file cannot point to another folder.
            monitor = GoalMonitor.load(path.with_name(Path(kept["monitor"]).name))
            options = {one: kept[one] for one in ("episodes_needed", "level", "t", "renew_p")}
            found = cls(monitor, **options)
            found.guard.restore(kept["guard"])
            found._announced = bool(kept["announced"])
            found._under_way = set(kept["under_way"])
            found._fresh = dict.fromkeys(kept["fresh"])
            if kept["runs"]:
                runs = Episodes.read(path.with_name(Path(kept["runs"]).name))
                for i, name in enumerate(runs.ids.tolist()):
                    found._fresh[name] = runs.take([i])
            if len(found._fresh) != len(kept["fresh"]):
                raise ValueError("it contains runs whose ids it does not list")
        return found
