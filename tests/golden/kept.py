"""Keep golden answers, or show where today's differ from them.

    python -m tests.golden.kept --new              # fit, and keep the files of cases without one
    python -m tests.golden.kept --files CASE …     # keep what the kept file of a case answers now
    python -m tests.golden.kept --fits CASE …      # keep what a fresh fit of a case answers now

A kept model file is never written again. Whoever keeps other answers says in MOVED.md what moved
and why.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ontarget import GoalMonitor
from tests.golden.answers import answers
from tests.golden.cases import CASES

FOLDER = Path(__file__).parent
PINNED = FOLDER / "pinned.txt"


def differences(kept: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where two answers differ in a bit, each as a line."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for name in sorted(kept.keys() | now.keys()):
            if name in kept and name in now:
                yield from differences(kept[name], now[name], f"{where}/{name}")
            else:
                yield f"{where}/{name} is {'new' if name in now else 'gone'}"
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for i, (one, other) in enumerate(zip(kept, now, strict=True)):
            yield from differences(one, other, f"{where}/{i}")
    elif kept != now or type(kept) is not type(now):
        yield f"{where}: {kept!r} → {now!r}"


def from_file(case: str) -> dict[str, Any]:
    """What the kept model file of a case answers now."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "kept.ontarget"
        path.write_bytes(lzma.decompress(_file(case).read_bytes()))
        return _through_json(answers(CASES[case], GoalMonitor.load(path)))


def from_fit(case: str) -> dict[str, Any]:
    """What a fresh fit of a case answers now."""
    return _through_json(answers(CASES[case], CASES[case].fit()))


def read(kind: str, case: str) -> dict[str, Any]:
    """The kept answers of a case; ``kind`` is "files" or "fits"."""
    found: dict[str, Any] = json.loads(gzip.decompress(_answers(kind, case).read_bytes()))
    return found


def unpinned() -> list[str]:
    """How this environment differs from the one in which answers were kept."""
    pinned = dict(line.split("==") for line in PINNED.read_text().split())
    here = {name: version(name) for name in pinned if name != "python"}
    here["python"] = ".".join(platform.python_version_tuple()[:2])
    return [f"{name} {here[name]}, kept with {pinned[name]}" for name in pinned
            if here[name] != pinned[name]]  # fmt: skip


def _through_json(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def _file(case: str) -> Path:
    return FOLDER / "files" / f"{case}.ontarget.xz"


def _answers(kind: str, case: str) -> Path:
    return FOLDER / kind / f"{case}.json.gz"


def _keep(kind: str, case: str, told: dict[str, Any]) -> None:
    path = _answers(kind, case)
    if path.exists():
        moved = list(differences(read(kind, case), told))
        sys.stdout.write("\n  ".join([f"{kind} {case}: {len(moved)} moved", *moved[:10], ""]))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(told, sort_keys=True).encode(), mtime=0))


def _keep_new() -> None:
    (FOLDER / "files").mkdir(exist_ok=True)
    for case in (case for case in CASES if not _file(case).exists()):
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "new.ontarget"
            CASES[case].fit().save(path)
            _file(case).write_bytes(lzma.compress(path.read_bytes(), preset=9))
        told = from_file(case)
        fresh = list(differences(told, from_fit(case)))
        assert not fresh, f"{case}: the file answers otherwise than the fit: {fresh[:5]}"
        for kind in ("files", "fits"):
            _keep(kind, case, told)


def main() -> None:
    """Keep what the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--files", nargs="*", metavar="CASE")
    parser.add_argument("--fits", nargs="*", metavar="CASE")
    asked = parser.parse_args()
    if asked.new:
        _keep_new()
    for case in asked.files or (CASES if asked.files == [] else ()):
        _keep("files", case, from_file(case))
    for case in asked.fits or (CASES if asked.fits == [] else ()):
        _keep("fits", case, from_fit(case))


if __name__ == "__main__":
    main()
