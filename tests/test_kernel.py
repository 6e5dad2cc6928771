"""How kernels are compiled: on first call, cached where a cache can be written."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from ontarget import _kernel as module
from ontarget._kernel import inner_kernel, kernel


@inner_kernel
def _twice(x: float) -> float:
    return 2.0 * x


@kernel
def _twice_plus_one(x: float) -> float:
    return _twice(x) + 1.0


def test_nothing_is_compiled_before_the_first_call() -> None:
    assert _twice_plus_one.signatures == []  # type: ignore[attr-defined]
    assert _twice_plus_one(3.0) == 7.0
    assert len(_twice_plus_one.signatures) == 1  # type: ignore[attr-defined]


def function_without_a_file(number: int) -> Callable[[], int]:
    """Numba finds no folder to cache a function in whose file does not exist."""
    names: dict[str, Callable[[], int]] = {}
    exec(compile(f"def f():\n    return {number}", "/nowhere/module.py", "exec"), names)
    return names["f"]


def test_without_a_cache_there_is_one_warning_and_kernels_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [kernel(function_without_a_file(k))() for k in (1, 2)] == [1, 2]
    assert len(caught) == 1
    assert "NUMBA_CACHE_DIR" in str(caught[0].message)


def test_inner_kernels_return_numbers_only() -> None:
    """They do not count who holds an array, so one they returned would be freed too early."""
    numbers = {"None", "bool", "int", "float", "np.uint64", "Split", "tuple"}
    found = 0
    for path in Path(module.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            if "inner_kernel" in [ast.unparse(d) for d in node.decorator_list]:
                assert node.returns is not None
                parts = set(re.findall(r"[\w.]+", ast.unparse(node.returns)))
                assert parts <= numbers, f"{path.name}: {node.name}"
                found += 1
    assert found > 20
