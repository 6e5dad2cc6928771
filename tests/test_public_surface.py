"""The package's front door: what it shows, and what it costs to open."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ontarget


def test_every_public_name_resolves() -> None:
    for name in ontarget.__all__:
        assert getattr(ontarget, name) is not None


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(ontarget) == sorted(ontarget.__all__)


def test_the_lazy_table_and_all_agree() -> None:
    assert {*ontarget._PUBLIC, "__version__"} == set(ontarget.__all__)


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

    found = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(found) > 8
    for error in found:
        assert issubclass(error, errors.OntargetError)
        if error is not errors.OntargetError:
            kinds = (ValueError, OSError, ImportError, AttributeError)
            assert issubclass(error, kinds), f"{error.__name__} is no builtin kind"
