"""The package's front door: what it shows, and what it costs to open."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ontarget

PACKAGES = ["ontarget", "ontarget.models", "ontarget.domains", "ontarget.monitor", "ontarget.study"]


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_is_the_public_surface(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
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


def test_the_list_of_what_is_promised_holds_every_kind() -> None:
    listed = (Path(__file__).parents[1] / "docs" / "surface.txt").read_text().splitlines()
    for line in (
        "ontarget.Target.at_least(value)",
        "ontarget evaluate --false-alarm-rate",
        "GET /v1/events",
        "model file, layout 1",
    ):
        assert line in listed
