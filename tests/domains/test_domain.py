from __future__ import annotations

import numpy as np

from ontarget.domains.domain import count, join, take
from ontarget.domains.tamarisk import Rivers
from ontarget.errors import InputError
from refusals import refuses

RIVERS = Rivers(np.arange(6, dtype=np.int8).reshape(3, 2))


def test_take_copies_and_repeats_episodes() -> None:
    taken = take(RIVERS, np.array([2, 2, 0]))
    assert taken.edges.tolist() == [[4, 5], [4, 5], [0, 1]]
    taken.edges[:] = 9
    assert RIVERS.edges[2].tolist() == [4, 5]


def test_join_undoes_a_division() -> None:
    parts = [take(RIVERS, np.array([0])), take(RIVERS, np.array([1, 2]))]
    joined = join(parts)
    assert np.array_equal(joined.edges, RIVERS.edges)
    assert count(joined) == 3


def test_join_of_nothing_is_refused() -> None:
    with refuses(InputError, None, "join"):
        join([])


def test_a_state_that_is_no_dataclass_is_refused() -> None:
    with refuses(InputError, None, "dataclass", "array("):
        count(np.zeros(3))
