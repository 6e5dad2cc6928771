from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes
from ontarget.errors import CensoredError, EpisodesError
from refusals import refuses


def log(takeovers: dict[int, int], *, runs: int = 6, **columns: object) -> pl.DataFrame:
    """Runs of four steps; some are taken over at a step and stay so."""
    rows = [(i, t, t >= takeovers.get(i, 9)) for i in range(runs) for t in range(4)]
    table = pl.DataFrame(
        {
            "episode": [row[0] for row in rows],
            "step": [row[1] for row in rows],
            "speed": np.arange(len(rows)) * 0.5,
            "reward": np.ones(len(rows)),
            "safe": [row[2] for row in rows],
        }
    )
    return table.with_columns(**columns)


def test_runs_that_were_taken_over_are_left_out_by_default_and_it_says_so() -> None:
    runs = Episodes.from_frame(log({1: 2, 4: 0}), intervened="safe")
    assert runs.ids.tolist() == [0, 2, 3, 5]
    assert runs.schema.names == ("speed",)
    assert "2 of 6" in " ".join(runs.remarks)


@pytest.mark.parametrize("flag", ["none", "terminated", "truncated"])
def test_they_are_cut_off_where_somebody_took_over(flag: str) -> None:
    more = {} if flag == "none" else {flag: pl.col("step") == (3 if flag == "terminated" else 9)}
    mixed = log({1: 2, 4: 0}, **more).sample(fraction=1.0, shuffle=True, seed=0)
    runs = Episodes.from_frame(mixed, intervened="safe", censored="worst-case")
    runs = runs.take(np.argsort(runs.ids))
    assert runs.lengths.tolist() == [4, 2, 4, 4, 1, 4]
    assert runs.cut_off.tolist() == [False, True, False, False, True, False]
    assert runs.outcomes.tolist() == [4.0, 2.0, 4.0, 4.0, 1.0, 4.0]
    assert runs.horizon == 4
    assert "cut off" in " ".join(runs.remarks)


def test_logged_probabilities_of_a_takeover_make_up_for_those_left_out() -> None:
    table = log({1: 2}, chance=pl.lit(0.1))
    runs = Episodes.from_frame(
        table, intervened="safe", censored="weights", stop_probability="chance", stop_bound=1.6
    )
    assert 1 not in runs.ids.tolist()
    assert runs.censoring == "weights"
    with refuses(EpisodesError, "stop_probability", -0.1, "episode 0, step 0"):
        Episodes.from_frame(
            table.with_columns(chance=pl.lit(-0.1)),
            intervened="safe", censored="weights", stop_probability="chance", stop_bound=1.6,
        )  # fmt: skip


def test_a_log_without_interventions_is_read_as_it_is() -> None:
    plain = Episodes.from_frame(log({}).drop("safe"))
    assert Episodes.from_frame(log({}), intervened="safe").to_frame().equals(plain.to_frame())


def test_a_column_called_intervened_is_taken_for_what_it_says() -> None:
    table = log({1: 2}).rename({"safe": "intervened"})
    runs = Episodes.from_frame(table)
    assert runs.ids.tolist() == [0, 2, 3, 4, 5]
    assert runs.schema.names == ("speed",)
    for options in ({"intervened": None}, {"features": ["speed", "intervened"]}):
        whole = Episodes.from_frame(table, **options)
        assert len(whole) == 6
        assert whole.schema.names == ("speed", "intervened")
    assert len(Episodes.from_frame(table, drop=["intervened"])) == 6


def test_what_cannot_be_read_is_refused() -> None:
    with refuses(EpisodesError, "intervened", "'taken'"):
        Episodes.from_frame(log({}), intervened="taken")
    with refuses(CensoredError, None, "all 2", "'safe'"):
        Episodes.from_frame(log({0: 1, 1: 1}, runs=2), intervened="safe")
    with refuses(EpisodesError, None, "'safe'", "'perhaps'"):
        Episodes.from_frame(log({0: 1}).with_columns(safe=pl.lit("perhaps")), intervened="safe")
