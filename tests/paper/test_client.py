"""The reproduction is a client: it takes what it needs from the faces that everyone sees."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ontarget.paper

FACES = (
    "ontarget",
    "ontarget.conformal",
    "ontarget.domains",
    "ontarget.episodes",
    "ontarget.errors",
    "ontarget.evaluation",
    "ontarget.evaluation.figures",
    "ontarget.live",
    "ontarget.models",
    "ontarget.report",
)
MODULES = sorted(Path(ontarget.paper.__file__).parent.rglob("*.py"))


def hidden_imports(source: str) -> Iterator[str]:
    """What a source imports from the package, reproduction apart, that no face shows."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (n for n in names if n.startswith("ontarget.") and n not in FACES)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module == "ontarget._whole_file":  # how every package writes its files
                continue
            if module.split(".")[0] != "ontarget" or module.startswith("ontarget.paper"):
                continue
            shown = importlib.import_module(module).__all__ if module in FACES else ()
            names = [alias.name for alias in node.names]
            yield from (f"{module}.{name}" for name in names if name not in shown)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_reproduction_imports_public_names_alone(path: Path) -> None:
    assert list(hidden_imports(path.read_text())) == []


def test_a_private_import_is_caught() -> None:
    source = "from ontarget._grid import snap\nfrom ontarget.models import QuantileForest, Side\n"
    assert list(hidden_imports(source)) == ["ontarget._grid.snap", "ontarget.models.Side"]
    assert list(hidden_imports("import ontarget.fitted.law")) == ["ontarget.fitted.law"]
