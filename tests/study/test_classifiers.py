from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ontarget.study import _classifiers as module
from ontarget.study._classifiers import RIVALS, boosted, logistic
from ontarget.study._rows import Rows, rows_of

from .known_walks import TARGET, known_walks, truth

each = pytest.mark.parametrize("classify", RIVALS.values(), ids=RIVALS)


def rows(n: int = 800, seed: int = 0) -> Rows:
    return rows_of(known_walks(n, seed), TARGET)


@each
def test_a_rival_comes_near_the_truth(classify) -> None:
    learn, asked = rows(), rows(400, seed=1)
    off = np.abs(classify(learn, asked) - truth(learn, asked)).mean()
    assert off < 0.06  # a coin is off by 0.4


@each
def test_a_rival_reads_categories_as_names(classify) -> None:
    # The target depends on a category in no order that its numbers have.
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 20, size=4_000).astype(float)
    met = np.isin(kind, [1, 4, 6, 11, 12, 17])
    n, code = kind.size, 1000.0 - 37.0 * kind
    t, b, episode = np.zeros(n, dtype=int), np.zeros(n), np.arange(n)
    made = Rows(code[:, None], np.array([True]), t, b, met, episode)
    p = classify(made.take(slice(3_000)), made.take(slice(3_000, n)))
    assert np.abs(p - met[3_000:]).mean() < 0.1  # always saying the rate is off by 0.42


@each
def test_a_rival_takes_many_and_unseen_categories_and_empty_columns(classify) -> None:
    learn, asked = rows(600), rows(100, seed=1)
    rng = np.random.default_rng(0)

    def wide(part: Rows, names: int) -> Rows:
        more = rng.integers(0, names, size=len(part)).astype(float)
        X = np.column_stack([part.X, more, np.full(len(part), np.nan)])
        return replace(part, X=X, categorical=np.array([False, True, False]))

    p = classify(wide(learn, 1_000), wide(asked, 2_000))
    assert np.abs(p - truth(learn, asked)).mean() < 0.12


@each
def test_a_past_of_one_kind_gives_its_rate(classify) -> None:
    learn = rows(100)
    always = replace(learn, met=np.ones_like(learn.met))
    assert classify(always, learn) == pytest.approx(101 / 102)


def test_a_large_log_is_thinned_by_rows_not_by_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    learn, asked = rows(), rows(400, seed=1)
    whole = logistic(learn, asked)
    monkeypatch.setattr(module, "_MOST_CELLS", 20_000)
    thinned = logistic(learn, asked)
    assert not np.array_equal(thinned, whole)
    assert np.abs(thinned - whole).mean() < 0.02


@each
def test_the_same_seed_gives_the_same_answers(classify) -> None:
    learn, asked = rows(200), rows(50, seed=1)
    assert np.array_equal(classify(learn, asked, seed=3), classify(learn, asked, seed=3))


def test_boosting_stops_where_held_out_episodes_are_forecast_best() -> None:
    # Pure noise: more trees only learn it by heart.
    learn = rows(200)
    rng = np.random.default_rng(0)
    noise = replace(learn, X=rng.normal(size=(len(learn), 5)), categorical=np.zeros(5, bool))
    met = (rng.uniform(size=200) < 0.5)[learn.episode]
    p = boosted(replace(noise, met=met, b=np.zeros(len(learn))), noise)
    assert p.std() < 0.1
