"""Errors carry the arguments they name, and survive being copied and sent to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from ontarget import errors
from ontarget.errors import Argument, OntargetError, Placeholder

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, OntargetError)
]
PARTS = ("pass ", Argument("reward", Placeholder("NAME")), " or ", Argument("censored", "drop"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_several_parts_reads_as_one(kind: type[OntargetError]) -> None:
    error = kind(*PARTS)
    assert str(error) == "pass reward=NAME or censored='drop'"
    assert error.args == (str(error),)
    assert error.told(lambda argument: argument.name.upper()) == "pass REWARD or CENSORED"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_copy_says_and_carries_the_same(kind: type[OntargetError], copied) -> None:
    error = kind(*PARTS)
    error.add_note("in run 7")
    again = copied(error)
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.parts == PARTS
    assert again.__notes__ == ["in run 7"]
