"""How tests check an error: by its class, the argument it names and the values it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ontarget.errors import OntargetError


@contextmanager
def refuses(
    error: type[OntargetError], argument: str | None = None, *shown: object
) -> Iterator[pytest.ExceptionInfo[OntargetError]]:
    """Expect exactly this class of error, about this argument (or none), showing these values.

    Sentences may change without a test; what went wrong, where, and with which value may not.
    """
    with pytest.raises(error) as caught:
        yield caught
    found = caught.value
    assert (type(found), found.argument) == (error, argument), f"{found!r}"
    for value in shown:
        assert str(value) in str(found)
