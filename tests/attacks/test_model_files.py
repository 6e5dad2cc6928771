"""A forged model file, its checksums right, is refused or answers with numbers that make sense."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks.attack import attack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.mark.parametrize("n", [200, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_forged_file_crashes_hangs_or_lies(
    n: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attack(folder, range(n))
    with capsys.disabled():
        sys.stdout.write(f"\n{found}\n")
    assert found.faults == []
    assert found.endings["refused"] > 0.5 * n
    assert found.endings["answered"] > 0.05 * n  # else the mutants are too crude to test anything


@pytest.mark.slow
def test_no_forged_file_makes_a_kernel_read_out_of_bounds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attack(folder, range(20_000), seconds=30.0, bounds_checked=True)
    with capsys.disabled():
        sys.stdout.write(f"\nbounds checked: {found}\n")
    assert found.faults == []
