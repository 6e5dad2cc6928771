"""Answers stay as they were, bit for bit, unless MOVED.md says what moved and why."""

from __future__ import annotations

import pytest

from tests.golden.cases import CASES
from tests.golden.kept import differences, from_file, from_fit, read, unpinned


@pytest.mark.parametrize("case", CASES)
def test_a_kept_file_answers_as_it_did(case: str) -> None:
    assert list(differences(read("files", case), from_file(case))) == []


@pytest.mark.thorough
@pytest.mark.skipif(bool(unpinned()), reason=f"another environment: {', '.join(unpinned())}")
@pytest.mark.parametrize("case", CASES)
def test_a_fresh_fit_answers_as_it_did(case: str) -> None:
    assert list(differences(read("fits", case), from_fit(case))) == []


def test_a_changed_bit_is_a_difference() -> None:
    kept = {"p": [0.1, None, "inf"], "status": "OK"}
    assert list(differences(kept, {"p": [0.1, None, "inf"], "status": "OK"})) == []
    for now in (
        {"p": [0.1 + 2**-56, None, "inf"], "status": "OK"},
        {"p": [0.1, None], "status": "OK"},
        {"p": [0.1, 0.0, "inf"], "status": "OK"},
        {"p": [0.1, None, "inf"]},
        {"p": [0.1, None, "inf"], "status": "OK", "more": 1},
    ):
        assert list(differences(kept, now)), now
