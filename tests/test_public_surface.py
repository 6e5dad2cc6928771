"""The package's front door: what it shows, and what it costs to open."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ontarget

PACKAGES = ["ontarget", "ontarget.models", "ontarget.domains"]


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_is_the_public_surface(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        ontarget.nothing  # noqa: B018


def test_importing_ontarget_loads_no_heavy_package() -> None:
    heavy = ["sklearn", "numba", "polars", "narwhals", "matplotlib", "scipy", "typer", "numpy"]
    code = f"import sys, ontarget; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_error_is_of_the_tree_and_of_a_builtin_kind() -> None:
    from ontarget import errors

    found = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert len(found) > 8
    for error in found:
        assert issubclass(error, errors.OntargetError)
        if error is not errors.OntargetError:
            kinds = (ValueError, OSError, ImportError, RuntimeError)
            assert issubclass(error, kinds), f"{error.__name__} is no builtin kind"


def test_what_is_promised_to_stay_changes_only_when_it_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # If a change is meant: a line in CHANGELOG.md, then python docs/write_surface.py --update
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "docs")
    listed = importlib.import_module("write_surface")
    kept = set(listed.SURFACE.read_text().splitlines())
    now = listed.surface().splitlines()
    assert sorted(kept - set(now)) == []  # gone or changed
    assert [line for line in now if line not in kept] == []  # new


def promised() -> list[str]:
    return (Path(__file__).parents[1] / "docs" / "surface.txt").read_text().splitlines()


def test_the_list_of_what_is_promised_holds_every_kind() -> None:
    for line in (
        "ontarget.Target.at_least(value)",
        "ontarget.Watch.step(state, reward=0.0, *, behavior=None)",
        "ontarget --fail-on-alarm: watch",
        "GET /v1/events",
        "model file, layout 2",
    ):
        assert line in promised()


def test_little_is_promised() -> None:
    assert sum(line.startswith("ontarget.") for line in promised()) <= 350
    assert sum(line.startswith("ontarget ") for line in promised()) <= 250


class Used:
    """The names and options that the tests, and the examples in docstrings, make use of."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        root = Path(__file__).parents[1]
        for path in (root / "tests").rglob("*.py"):
            self._take(path.read_text())
        parser = doctest.DocTestParser()
        for path in (root / "src").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    for example in parser.get_examples(ast.get_docstring(node) or ""):
                        self._take(example.source)

    def _take(self, source: str) -> None:
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                    self.names.add(name)
                case ast.FunctionDef(name=name):  # a method that a test overrides
                    self.names.add(name)
                case ast.alias(name=name):
                    self.names.add(name.rpartition(".")[2])
                case ast.Constant(value=str(text)):
                    self.names.update(re.findall(r"(?<!\S)--?[a-z][\w-]*", text))
                    self.names.add(text)


def test_everything_that_is_promised_is_used_by_a_test() -> None:
    used = Used().names
    names = [re.match(r"[\w.]+", line)[0] for line in promised() if line.startswith("ontarget.")]
    used |= {name.split(".")[1] for name in names if name.count(".") > 1}  # by their members
    unused = []
    for line in promised():
        if line.startswith("ontarget."):
            spelled = [re.match(r"[\w.]+", line)[0].rpartition(".")[2]]
        elif line.startswith("ontarget -"):
            spelled = line.removeprefix("ontarget ").partition(":")[0].split(", ")
        else:
            continue
        if not used.intersection(spelled):
            unused.append(line)
    assert not unused, "\n".join(unused)
