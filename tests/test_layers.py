"""Imports point one way: from later layers to earlier ones."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ontarget

SOURCE = Path(__file__).parents[1] / "src" / "ontarget"

# Earlier may not import later. Names on one line are one layer and may import each other.
LAYERS = [
    ["errors", "_typing", "_extras", "_arguments", "_lazy", "_progress", "_version", "_whole_file"],
    ["_grid", "_kernel", "_keyed", "_readonly", "_splitmix", "_threads"],
    ["target"],
    ["episodes"],
    ["models"],
    ["conformal"],
    ["evaluation"],
    ["fitted"],
    ["modelfile"],
    ["fitting"],
    ["live"],
    ["report"],
    ["monitor"],
    ["domains"],
    ["integrations"],
    ["paper"],
    ["service"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imported_layers(source: str) -> set[str]:
    """The parts of ontarget that a module imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        for module in modules:
            parts = module.split(".")
            if parts[0] == "ontarget" and len(parts) > 1:
                found.add(home(parts[1]))
    return found


def home(name: str) -> str:
    """The layer of a module, or of a name that the package itself shows."""
    if name in RANK:
        return name
    shown = getattr(ontarget, name)
    return "_version" if isinstance(shown, str) else shown.__module__.split(".")[1]


def upward_imports(layer: str, source: str) -> set[str]:
    return {name for name in imported_layers(source) if RANK[name] > RANK[layer]}


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_module_imports_only_earlier_layers(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert layer in RANK, f"{layer} has no place in LAYERS yet"
    assert upward_imports(layer, path.read_text()) == set()


def test_an_upward_import_is_caught() -> None:
    assert upward_imports("episodes", "def f():\n    from ontarget.models.base import Side\n") == {
        "models"
    }
    assert upward_imports("models", "from ontarget import GoalMonitor") == {"monitor"}
