from __future__ import annotations

import subprocess
import sys

import pytest

from ontarget import domains

ALONE = """
import sys
from ontarget.domains import simulate
simulate({name!r}, 2)
print(sorted({{"gymnasium", "jax", "matplotlib", "sc2"}} & set(sys.modules)))
"""


def test_every_public_name_is_found() -> None:
    assert domains.__all__ == sorted(domains.__all__)
    for name in domains.__all__:
        assert getattr(getattr(domains, name), "__name__", name) == name
    assert dir(domains) == domains.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="chess"):
        domains.chess  # noqa: B018 - the look-up is what is tested


@pytest.mark.parametrize("name", ["tamarisk", "skirmish"])
def test_simulators_need_no_gymnasium_and_no_drawing(name: str) -> None:
    script = ALONE.format(name=name)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
