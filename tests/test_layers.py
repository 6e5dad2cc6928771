"""Imports point one way: from later layers to earlier ones."""

from __future__ import annotations

import ast
import importlib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ontarget

SOURCE = Path(__file__).parents[1] / "src" / "ontarget"

# Earlier may not import later. Names on one line are one layer and may import each other.
LAYERS = [
    ["errors", "_typing", "_text"],
    ["_package", "_arguments", "_whole_file"],
    ["client"],
    ["_arrays", "_grid", "_kernel", "_keyed", "_progress", "_threads"],
    ["target"],
    ["goal"],
    ["episodes", "reading"],
    ["models"],
    ["conformal"],
    ["evaluation"],
    ["fitted"],
    ["modelfile"],
    ["fitting"],
    ["live"],
    ["drift"],
    ["report"],
    ["monitor"],
    ["study"],
    ["domains"],
    ["integrations"],
    ["paper"],
    ["service"],
    ["cli"],
    ["__main__"],
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
    return "_package" if isinstance(shown, str) else shown.__module__.split(".")[1]


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


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, known: set[str]) -> set[str]:
    """The package's own modules that a source imports, also for types alone or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def test_no_module_imports_what_imports_it() -> None:
    sources = {module_of(path): path.read_text() for path in SOURCE.rglob("*.py")}
    graph = {
        name: imported_modules(source, set(sources)) - {"ontarget"}
        for name, source in sources.items()
        if name != "ontarget"  # the face, which looks at everything
    }
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("ontarget.fitted.law") < order.index("ontarget.live.watch")


def test_a_cycle_for_types_alone_is_caught() -> None:
    source = "if TYPE_CHECKING:\n    from ontarget.live.watch import Watch\n"
    assert imported_modules(source, {"ontarget.live.watch"}) == {"ontarget.live.watch"}


ROOMS = ["conformal", "drift", "episodes", "evaluation", "live", "models", "reading", "report"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_without_an_underscore_is_for_others(room: str) -> None:
    # Either it holds a name that the package shows, or the package's docstring names it.
    face = importlib.import_module(f"ontarget.{room}")
    for path in sorted((SOURCE / room).glob("[!_]*.py")):
        tree = ast.parse(path.read_text())
        shown = {getattr(node, "name", "") for node in tree.body} & set(face.__all__)
        named = f"`{path.stem}`" in str(face.__doc__)
        assert shown or named, f"{room}/{path.name} shows nothing; call it _{path.name}"


def test_no_room_is_a_flat_folder_of_many_files() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    sizes = {str(f.relative_to(SOURCE)): len(list(f.glob("*.py"))) for f in folders}
    assert max(sizes.values()) <= 23, sizes
