"""The helper that checks errors fails when it should."""

from __future__ import annotations

import pytest

from ontarget.errors import Argument, CensoredError, EpisodesError, InputError
from refusals import refuses


def raised(error: type[Exception]) -> None:
    raise error(Argument("level"), " needs a number below 1, got 3")


def test_it_passes_for_the_class_the_argument_and_the_value() -> None:
    with refuses(InputError, "level", 3):
        raised(InputError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InputError, (InputError, "seed")),
        (InputError, (InputError,)),
        (InputError, (InputError, "level", 4)),
        (CensoredError, (EpisodesError, "level")),
    ],
)
def test_another_class_argument_or_value_fails(error, expected) -> None:
    with pytest.raises(AssertionError), refuses(*expected):
        raised(error)
