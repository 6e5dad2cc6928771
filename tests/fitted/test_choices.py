"""What a fit chose is told in words, and comes back from a file."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ontarget.errors import ModelFileError
from ontarget.fitted.choices import Choices, Trial

CHOSEN = Choices(
    7, (Trial(13), Trial(7, 0.03, 0.01), Trial(4, 0.001, 0.002)), 0.75, {"shift": 0.25}
)


def test_choices_come_back_from_plain_values() -> None:
    again = Choices.from_json(CHOSEN.to_json())
    assert (again.spacing, again.opening, again.experts) == (7, 0.75, {"shift": 0.25})
    assert [trial.spacing for trial in again.trials] == [13, 7, 4]
    assert math.isnan(again.trials[0].gain)
    assert again.trials[1:] == CHOSEN.trials[1:]


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (CHOSEN, "up to 7 steps apart: 4 would not surely tell held-out outcomes better"),
        (CHOSEN, "a model of the first step alone has 75 % of its law"),
        (
            Choices(4, (Trial(8), Trial(4, 0.03, 0.01))),
            "shorter ones told held-out outcomes better",
        ),
        (Choices(4, (Trial(4),)), "up to 4 steps apart, the least"),
        (Choices(4), "up to 4 steps apart"),
        (Choices(), "as given"),
    ],
)
def test_what_decided_the_blocks_is_said(chosen: Choices, says: str) -> None:
    assert says in chosen.blocks_in_words


def test_experts_are_named_with_their_share() -> None:
    assert Choices(experts={"small_leaves": 0.6, "linear": 0.4}).experts_in_words == (
        "small leaves 60 %, linear 40 %"
    )


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"spacing": -1, "trials": [], "opening": 0.0, "experts": {}},
        {"spacing": 4, "trials": [[4, "much", 0.1]], "opening": 0.0, "experts": {}},
        {"spacing": 4, "trials": [4], "opening": 0.0, "experts": {}},
        {"spacing": 4, "trials": [], "opening": 0.0, "experts": {"shift": 7.0}},
        {"spacing": 4, "trials": [[4, None, None]] * 100, "opening": 0.0, "experts": {}},
        {"spacing": 4, "trials": [], "opening": 0.0, "experts": ["shift"]},
        {"spacing": 4, "trials": [], "opening": 1.5, "experts": {}},
        {"spacing": 4, "trials": [], "opening": None, "experts": {}},
    ],
)
def test_damaged_choices_are_refused(damaged: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="chosen in the header"):
        Choices.from_json(damaged)
