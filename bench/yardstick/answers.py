"""The answers of each method to a question, stored in a folder so that nothing is fitted twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import yardstick.logistic
from ontarget import study
from ontarget.study import boosted
from yardstick import _rivals, forecast
from yardstick._rivals import best_of_past
from yardstick.logistic import logistic
from yardstick.questions import Question

_LATER = ("cli", "domains", "integrations", "paper", "study.py")  # no answer depends on them
HERE = Path(__file__).resolve().parents[2]  # the checkout that this file belongs to


@dataclass(frozen=True)
class Answer:
    """A method's answer: one probability for each row of the new episodes, NaN if it gives none."""

    p: np.ndarray
    seconds: float  # of processor time
    raw: np.ndarray | None = None  # before calibration, where a method tells


@dataclass(frozen=True)
class Method:
    """A method that answers questions; ``code`` is a text that changes if answers might change."""

    name: str
    code: str
    answer: Callable[[Question], Answer]


def methods(before: Path | None) -> dict[str, Method]:
    """The methods by name; ``before`` is a folder with an older version of this repository."""
    found = [monitor("ours", HERE)]
    if before is not None:
        found.append(monitor("before", before.resolve()))
    found += [rival("boosted", boosted), rival("logistic", logistic), rival("rival", best_of_past)]
    return {method.name: method for method in found}


def rival(name: str, classify: Callable[..., np.ndarray]) -> Method:
    def answer(question: Question) -> Answer:
        started = time.process_time()
        p = classify(question.learn, question.asked, question.seed)
        return Answer(p, time.process_time() - started)

    return Method(
        name, _digest(study.__file__, yardstick.logistic.__file__, _rivals.__file__), answer
    )


def monitor(name: str, checkout: Path) -> Method:
    """The method `GoalMonitor()` with the code in the folder ``checkout``.

    It runs in a process of its own that imports this code.
    """
    package = checkout / "src" / "ontarget"
    if not package.is_dir():
        raise SystemExit(f"--beside needs a checkout with src/ontarget, got {checkout}")

    def answer(question: Question) -> Answer:
        with TemporaryDirectory() as folder:
            _write(question, Path(folder))
            _run(checkout, Path(folder))
            with np.load(Path(folder) / "answer.npz") as found:
                seconds = float(found["fit_seconds"] + found["ask_seconds"])
                return Answer(found["p"], seconds, found["raw"])

    own = (
        file for file in package.rglob("*.py") if file.relative_to(package).parts[0] not in _LATER
    )
    code = _digest(*sorted(map(str, own)))
    return Method(name, f"{code}-{forecast.FORM}", answer)


def kept(method: Method, question: Question, cache: Path | None) -> Answer:
    """The method's answer to a question; from the cache, if the same code stored it there."""
    if cache is None:
        return method.answer(question)
    file = cache / question.name / f"{method.name}-{method.code}-{question.fingerprint}.npz"
    if not file.exists():
        answer = method.answer(question)
        file.parent.mkdir(parents=True, exist_ok=True)
        raw = {} if answer.raw is None else {"raw": answer.raw}
        part = file.with_suffix(f".{os.getpid()}.npz")  # several runs may share a cache
        np.savez(part, p=answer.p, seconds=answer.seconds, **raw)
        part.rename(file)
    with np.load(file) as found:
        return Answer(found["p"], float(found["seconds"]), found.get("raw"))


def _write(question: Question, folder: Path) -> None:
    question.past.write_parquet(folder / "past.parquet")
    question.new.write_parquet(folder / "new.parquet")
    names = ("features", "categorical", "target", "horizon", "seed")
    about = {name: getattr(question, name) for name in names}
    (folder / "question.json").write_text(json.dumps(about))


def _run(checkout: Path, folder: Path) -> None:
    settings = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    settings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as for the rivals
    if checkout != HERE:  # another checkout stays as it is: its kernels are compiled elsewhere
        compiled = Path.home() / ".cache" / "ontarget-quality" / checkout.name
        settings |= {"NUMBA_CACHE_DIR": str(compiled), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, forecast.__file__, str(folder)],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the monitor of {checkout} failed:\n{done.stderr}")


def _digest(*files: str) -> str:
    digest = blake2b(digest_size=6)
    for file in files:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()
