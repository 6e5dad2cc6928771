"""What a fit chose is told in words, and comes back from a file."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ontarget.errors import ModelFileError
from ontarget.fitted.choices import Choices, Trial
from refusals import refuses

CHOSEN = Choices(
    7,
    (Trial(13), Trial(7, 0.03, 0.01), Trial(4, 0.001, 0.002)),
    0.75,
    {"shift": 0.25},
)

PLAIN: dict[str, Any] = {
    "spacing": 4, "trials": [], "opening": 0.0, "experts": {}
}  # fmt: skip


def test_choices_come_back_from_plain_values() -> None:
    again = Choices.from_json(CHOSEN.to_json())
    assert (again.spacing, again.opening, again.experts) == (7, 0.75, {"shift": 0.25})
    assert [trial.spacing for trial in again.trials] == [13, 7, 4]
    assert math.isnan(again.trials[0].gain)
    assert again.trials[1:] == CHOSEN.trials[1:]


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (CHOSEN, "up to 7 steps apart: 4 would not clearly predict held-out outcomes better"),
        (CHOSEN, "the first step's own model counts 75 % there"),
        (
            Choices(4, (Trial(8), Trial(4, 0.03, 0.01))),
            "shorter ones predicted held-out outcomes better",
        ),
        (Choices(4, (Trial(4),)), "up to 4 steps apart, the smallest allowed"),
        (Choices(4), "up to 4 steps apart: too few learning episodes to try shorter ones"),
        (Choices(), "as given"),
    ],
)
def test_what_decided_the_blocks_is_said(chosen: Choices, says: str) -> None:
    assert says in chosen.blocks_in_words


def test_experts_are_named_with_their_share_and_what_decided_it() -> None:
    assert Choices(experts={"small_leaves": 0.6, "linear": 0.4}).experts_in_words == (
        "small leaves 60 %, linear 40 %, weighted by how well each predicts unseen outcomes"
    )
    assert Choices().experts_in_words == ""


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"spacing": -1, "trials": [], "opening": 0.0, "experts": {}},
        {**PLAIN, "trials": [[4, "much", 0.1]]},
        {**PLAIN, "trials": [4]},
        {**PLAIN, "trials": [[4, None, None]] * 100},
        {**PLAIN, "experts": {"shift": 7.0}},
        {**PLAIN, "experts": ["shift"]},
        {**PLAIN, "opening": 1.5},
        {**PLAIN, "opening": None},
    ],
)
def test_damaged_choices_are_refused(damaged: dict[str, Any]) -> None:
    with refuses(ModelFileError, None, "'chosen'"):
        Choices.from_json(damaged)
