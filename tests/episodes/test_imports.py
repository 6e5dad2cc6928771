"""Modules of this package import each other in one direction, for types too."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from ontarget import episodes

FOLDER = Path(episodes.__file__).parent
PACKAGE = episodes.__name__


def imported(source: str) -> set[str]:
    """The package's own modules that a module imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            assert node.module is not None
            found.add(node.module.removeprefix(PACKAGE).lstrip(".") or "__init__")
    return found


def test_no_module_imports_what_imports_it() -> None:
    graph = {path.stem: imported(path.read_text()) for path in FOLDER.glob("*.py")}
    assert graph["episodes"] > {"_frames", "_files", "_splits", "_description"}
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("behavior") < order.index("_recorded") < order.index("episodes")


def test_an_import_for_types_alone_counts() -> None:
    source = f"if TYPE_CHECKING:\n    from {PACKAGE}.episodes import Episodes\n"
    graph = {"_splits": imported(source), "episodes": {"_splits"}}
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
