"""A program that answers a question with the `GoalMonitor` of one version of the code.

Run as ``PYTHONPATH=CHECKOUT/src python forecast.py FOLDER``. CHECKOUT is a folder with one version
of this repository. Only names that every version since f7bcf78 has are used here; whatever differs
between versions belongs in this file. Stored answers are found by the code of the version and by
`FORM`, not by the code of this file: raise `FORM` when a change in this file changes answers.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

FORM = 1


def main(folder: Path) -> None:
    from ontarget import Episodes, GoalMonitor, Target

    about = json.loads((folder / "question.json").read_text())
    columns = {"episode": "episode", "step": "step", "reward": "reward"}
    past_frame, new_frame = (
        pl.read_parquet(folder / f"{part}.parquet") for part in ("past", "new")
    )
    past = Episodes.from_frame(
        past_frame,
        **columns,
        features=about["features"],
        categorical=about["categorical"],
        horizon=about["horizon"],
        first_step=0,
    )
    # A word that the past never had counts as missing; f7bcf78 refused it instead.
    text = [name for name in about["features"] if past_frame[name].dtype == pl.String]
    known = [pl.when(pl.col(name).is_in(past_frame[name].unique())).then(name) for name in text]
    new_known = new_frame.with_columns(*(one.alias(n) for one, n in zip(known, text, strict=True)))
    new = Episodes.from_frame(new_known, **columns, like=past, first_step=0)
    started = time.process_time()
    monitor = GoalMonitor().fit(past, seed=about["seed"], progress=False)
    fitted = time.process_time()
    found = monitor.evaluate(new, Target(*about["target"]))
    answered = time.process_time()

    place = {str(name): k for k, name in enumerate(new.ids)}
    run = np.array([place[str(name)] for name in new_frame["episode"].to_list()])
    step = new_frame["step"].to_numpy()
    np.savez(
        folder / "answer.npz",
        p=np.asarray(found.p)[step, run],
        raw=np.asarray(found.raw)[step, run],
        fit_seconds=fitted - started,
        ask_seconds=answered - fitted,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
