from __future__ import annotations

from typing import Any

import pytest

from ontarget.errors import InputError
from ontarget.paper.experiment import FULL, QUICK, Plan


def test_the_full_plan_has_the_papers_sizes() -> None:
    assert (FULL.episodes, FULL.train, FULL.calibrate, FULL.test) == (10_000, 2_500, 2_500, 5_000)
    assert (FULL.partitions, FULL.bins, FULL.level) == (5, 30, 0.8)
    assert not FULL.quick


def test_the_quick_plan_says_so() -> None:
    assert QUICK.quick
    assert QUICK.with_seed(3).seed == 3
    assert QUICK.with_seed(3).describe()["quick"]


def test_every_step_of_every_partition_has_a_forest_of_its_own() -> None:
    seeds = {FULL.forest(k, t).seed for k in range(5) for t in range(57)}
    assert len(seeds) == 5 * 57


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"domains": ("chess",)}, "`domains` needs some of skirmish, smax, tamarisk"),
        ({"domains": ()}, "`domains` needs some of"),
        ({"episodes": 5_000}, "`episodes` needs more than train"),
        ({"partitions": 0}, "`partitions` needs a whole number from 1 up, got 0"),
        ({"seed": -1}, "`seed` needs a whole number from 0 up, got -1"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Plan(**wrong)
