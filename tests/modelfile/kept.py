"""Model files of released versions, with the answers that they gave.

    python -m tests.modelfile.kept     # at a release: keep the files of this version

Every kind of monitor in tests/attacks/monitors.py is kept, so every array of the format is.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ontarget import Goal, Target
from ontarget.errors import AlarmWarning, CalibrationError
from ontarget.monitor.monitor import GoalMonitor

KEPT = Path(__file__).parent / "kept"
STATES = [[-1.25, 0.0], [0.0, 1.0], [0.75, 2.0], [1.5, 1.0]]
SO_FAR = 0.5
TARGETS = (Target(-0.5, 0.5), Target.at_least(-1.0), Target.at_most(-2.0) | Target.at_least(3.0))
NUMBERS = ("p", "low", "high", "plausibility", "assurance")


def answers(monitor: GoalMonitor) -> dict[str, Any]:
    """What a monitor says about a few states at every step, as plain lists; None is no number."""
    group = None if monitor.groups is None else monitor.groups[-1]
    found: dict[str, Any] = {}
    for t in range(monitor.horizon):
        for at, asked in enumerate(_asked(monitor)):
            options = {} if monitor.readings else {"groups": group}
            seen = monitor.outlook(t, states_of(monitor), _so_far(monitor), asked, **options)
            found[f"outlook {t} of {at}"] = {one: _plain(getattr(seen, one)) for one in NUMBERS}
        if not monitor.readings:
            for ask in (monitor.interval, monitor.band):
                found[f"{ask.__name__} {t}"] = _ends(ask, t, states_of(monitor), group)
    options = {} if monitor.readings else {"group": group}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlarmWarning)  # of an alarm that hardly any run raises
        watch = monitor.watch(_asked(monitor)[0], alarm_below=0.3, **options)
    found["watch"] = [
        _plain(watch.step(state, _so_far(monitor) if t else 0.0).p)
        for t, state in enumerate(states_of(monitor)[:, : len(monitor.schema)])
    ]
    return found


def states_of(monitor: GoalMonitor) -> np.ndarray:
    """The states to ask about, with readings of earlier steps if the monitor takes them."""
    width = len(monitor.schema if monitor.readings else monitor.fitted.state_schema)
    return np.tile(np.array(STATES), (1, width))[:, :width]


def _asked(monitor: GoalMonitor) -> tuple[Any, ...]:
    if not monitor.readings:
        return TARGETS
    return tuple(Goal(dict.fromkeys(monitor.readings, target)) for target in TARGETS[:2])


def _so_far(monitor: GoalMonitor) -> Any:
    return dict.fromkeys(monitor.readings, SO_FAR) if monitor.readings else SO_FAR


def _ends(ask: Any, t: int, states: np.ndarray, group: object) -> list[Any] | None:
    try:
        found = ask(t, states, SO_FAR, 0.8, groups=group)
    except CalibrationError:  # too few episodes stand behind the step
        return None
    return [_plain(found.lower), _plain(found.upper)]


def _plain(numbers: Any) -> Any:
    """Numbers as JSON has them: infinities by their names, and None for NaN."""
    if isinstance(numbers, np.ndarray):
        return [_plain(one) for one in numbers]
    if np.isfinite(numbers):
        return float(numbers)
    return None if np.isnan(numbers) else str(float(numbers))


def read(folder: Path, name: str, place: Path) -> GoalMonitor:
    """A kept monitor, from a copy of its file in the folder ``place``."""
    path = place / f"{name}.ontarget"
    path.write_bytes(gzip.decompress((folder / f"{name}.ontarget.gz").read_bytes()))
    return GoalMonitor.load(path)


def main() -> None:
    """Fit every kind, and keep its file and its answers under this version's number."""
    from tests.attacks.monitors import write_all

    folder = KEPT / version("ontarget")
    if folder.exists():
        sys.exit(f"{folder.name} is kept already; files of a release are never written anew")
    folder.mkdir(parents=True)
    told = {}
    with tempfile.TemporaryDirectory() as place:
        write_all(Path(place))
        for path in sorted(Path(place).glob("*.ontarget")):
            packed = gzip.compress(path.read_bytes(), mtime=0)
            (folder / f"{path.stem}.ontarget.gz").write_bytes(packed)
            told[path.stem] = answers(GoalMonitor.load(path))
    text = json.dumps(told, indent=None, sort_keys=True)
    (folder / "answers.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
