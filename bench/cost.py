"""What the default monitor costs (fit, file, live step), compared with older code of this library.

    python bench/cost.py --beside OLDER_CHECKOUT --data FOLDER

OLDER_CHECKOUT is a folder with an older version of this repository. The present and the older
version take turns, each in a process of its own on one thread, so that other work on the machine
slows both alike. Fits are in seconds of processor time. The smallest value of all rounds counts.
FOLDER contains nfl_pbp.parquet; without it that part is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from ontarget.domains import Tamarisk, simulate
from yardstick import spent
from yardstick.answers import HERE
from yardstick.questions import REAL, real_questions
from yardstick.truth import frame_of

SETS = ("parts", "river", "nfl")
LIMITS = {"fit": 4.0, "step": 3.0, "file": 2.0}  # times the older checkout's, at most
WORDS = {"fit": "fit, s of processor time", "step": "Watch.step, median µs", "file": "file, bytes"}


@dataclass(frozen=True)
class Asked:
    """The question for a monitor: the features, the target, how to divide the past episodes."""

    features: tuple[str, ...]
    categorical: tuple[str, ...]
    horizon: int
    target: tuple[float, float]
    parts: dict[str, int] | None = None
    seed: int = 0


def river(n: int, parts: dict[str, int] | None) -> tuple[pl.DataFrame, Asked]:
    """Episodes of the paper's Tamarisk river as rows, and the question that is asked about them."""
    domain = Tamarisk("paper")
    episodes = simulate(domain, n, seed=0)
    names = tuple(episodes.schema.names)
    return frame_of(episodes), Asked(
        names, tuple(domain.categorical), episodes.horizon, (-67.1, -14.5), parts
    )


def football(data: Path) -> tuple[pl.DataFrame, Asked]:
    """Past episodes of American football (log nfl, first split) as rows, and the question."""
    one = next(iter(real_questions("nfl", data, 1)))
    return one.past, Asked(tuple(REAL["nfl"].features), (), one.horizon, one.target)


def measured(checkout: Path, folder: Path) -> dict[str, float]:
    """What one version of the code needs for the question in a folder: fit, file and live step."""
    settings = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    settings |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ONTARGET_THREADS"), "1")
    if checkout != HERE:
        compiled = Path.home() / ".cache" / "ontarget-quality" / checkout.name
        settings["NUMBA_CACHE_DIR"] = str(compiled)
    command = [sys.executable, spent.__file__, str(folder)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the monitor of {checkout} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, asked: tuple[pl.DataFrame, Asked], before: Path, rounds: int) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        asked[0].write_parquet(folder / "past.parquet")
        (folder / "question.json").write_text(json.dumps(asdict(asked[1])))
        found: dict[Path, list[dict[str, float]]] = {before: [], HERE: []}
        for _ in range(rounds):
            for checkout, own in found.items():
                own.append(measured(checkout, folder))
    print(f"\n{name}, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for figure, says in WORDS.items():
        old, new = (min(one[figure] for one in own) for own in found.values())
        each = " ".join(
            f"{one[figure] / two[figure]:.2f}" for two, one in zip(*found.values(), strict=True)
        )
        print(
            f"  {says:26} before {old:14,.1f}  now {new:14,.1f}  {new / old:.2f} times "
            f"({LIMITS[figure]:g} asked; round by round {each})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, required=True, help="the older checkout")
    parser.add_argument("--data", type=Path, help="folder of the real sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="all by default")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each checkout (3)")
    asked = parser.parse_args()
    before = asked.beside.resolve()
    parts = {"train": 2_500, "calibrate": 2_500, "assure": 1_000}
    asked_of = {
        "parts": ("Tamarisk, in the paper's parts of 6,000", lambda: river(6_000, parts)),
        "river": ("Tamarisk, 1,000 episodes", lambda: river(1_000, None)),
        "nfl": ("nfl, 1,000 games", lambda: football(asked.data)),
    }
    for name in asked.sets:
        if name != "nfl" or asked.data is not None:
            said, made = asked_of[name]
            compare(said, made(), before, asked.rounds)


if __name__ == "__main__":
    main()
