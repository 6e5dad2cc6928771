"""Importing is light; what is missing is named when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ontarget.integrations


def test_dir_is_the_public_surface() -> None:
    assert dir(ontarget.integrations) == sorted(ontarget.integrations.__all__)
    for name in ontarget.integrations.__all__:
        assert getattr(ontarget.integrations, name) is not None


def test_importing_it_loads_no_other_package() -> None:
    heavy = ["gymnasium", "stable_baselines3", "torch", "h5py", "numba", "sklearn", "numpy"]
    code = f"import sys, ontarget.integrations; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "blocked", "extra"),
    [
        ("from ontarget.integrations import record", "gymnasium", "gym"),
        ("from ontarget.integrations import GoalWrapper", "gymnasium", "gym"),
        ("from ontarget.integrations import VectorGoalWrapper", "gymnasium", "gym"),
        (
            "from ontarget.integrations import GoalCallback; GoalCallback(None, None)",
            "stable_baselines3",
            "sb3",
        ),
    ],
)
def test_a_missing_package_is_named_on_use(use: str, blocked: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{blocked!r}] = None\n"
        "import ontarget.integrations\n"
        "from ontarget.errors import MissingExtraError\n"
        f"try:\n    {use}\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f"pip install 'ontarget[{extra}]'")
