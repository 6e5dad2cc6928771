"""`RunGuide`: one model of the mean for all steps, whose prediction the models of blocks read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ontarget._keyed import keys_of
from ontarget.errors import ModelFileError
from ontarget.models.guided.run import RunGuide

RNG = np.random.default_rng(0)
RUNS, STEPS = 60, 20
KEYS = np.repeat(keys_of(np.arange(RUNS)), STEPS)
# Outcomes are noise of the run, and the last column names the run: who saw it could tell.
LUCK = np.repeat(RNG.normal(size=RUNS), STEPS)
X = np.column_stack([RNG.normal(size=(RUNS * STEPS, 2)), np.repeat(np.arange(RUNS), STEPS)])
Y = LUCK + 0.1 * X[:, 0]


def guide(categorical: tuple[int, ...] = ()) -> RunGuide:
    weight = np.ones(Y.size)
    return RunGuide.of(X, Y, weight, keys=KEYS, categorical=categorical, seed=0)


def test_a_run_that_was_learned_from_is_told_by_fits_that_never_saw_it() -> None:
    learned, as_new = (guide().appended(X, keys)[:, -1] for keys in (KEYS, None))
    assert abs(np.corrcoef(learned, LUCK)[0, 1]) < 0.3
    assert np.corrcoef(as_new, LUCK)[0, 1] > 0.3


def test_other_runs_are_told_by_the_fit_to_all() -> None:
    one = guide()
    others = keys_of(np.arange(RUNS, RUNS + 5))
    np.testing.assert_array_equal(one.appended(X[:5], others), one.appended(X[:5]))


def test_it_reads_no_categories() -> None:
    other = X.copy()
    other[:, 2] = RNG.permutation(other[:, 2])
    one = guide(categorical=(2,))
    np.testing.assert_array_equal(one.appended(X)[:, -1], one.appended(other)[:, -1])


def test_copies_answer_the_same() -> None:
    one = guide()
    copy = pickle.loads(pickle.dumps(one))
    stored = RunGuide.from_arrays(one.to_arrays(), X.shape[1])
    np.testing.assert_array_equal(copy.appended(X, KEYS), one.appended(X, KEYS))
    np.testing.assert_array_equal(stored.appended(X), one.appended(X))


@pytest.mark.parametrize("columns", [[0, 1, 3], [-1, 1, 2], [0, 1], [0, 1, 2, 2]])
def test_damaged_columns_are_refused(columns: list[int]) -> None:
    arrays = {**guide().to_arrays(), "columns": np.array(columns, dtype=np.int64)}
    with pytest.raises(ModelFileError):
        RunGuide.from_arrays(arrays, X.shape[1])
