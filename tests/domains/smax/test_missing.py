"""Without the extra, everything else works and the error says what to install."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from ontarget.domains import Smax, simulate, smax
from ontarget.errors import MissingExtraError
from refusals import refuses


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    smax.library.cache_clear()
    monkeypatch.setitem(sys.modules, "jaxmarl", None)
    yield
    smax.library.cache_clear()


@pytest.mark.usefixtures("no_engine")
def test_without_the_extra_the_error_names_it() -> None:
    with refuses(MissingExtraError, None, "'ontarget[smax]'"):
        Smax()
    with refuses(MissingExtraError, None, "'ontarget[smax]'"):
        simulate("smax", 1)
