"""What the source imports is what the package asks for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Modules that go by another name than what installs them, or come with it.
INSTALLED_BY = {
    "prometheus_client": "prometheus-client",
    "sklearn": "scikit-learn",
    "sc2": "burnysc2",
    "s2clientprotocol": "burnysc2",
    "google": "burnysc2",
    "loguru": "burnysc2",
}


def imported() -> set[str]:
    found = {"ontarget"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).split(".")[0])
    return found - {"ontarget"} - sys.stdlib_module_names


def test_every_dependency_says_its_oldest_version_and_that_one_is_tested() -> None:
    extras = PROJECT["optional-dependencies"].values()
    asked = [one for some in (PROJECT["dependencies"], *extras) for one in some]
    others = [one for one in asked if not one.startswith("ontarget[")]
    assert [one for one in others if ">=" not in one] == []
    # Without a bound, the lowest version that installs would be tested, not one that works.
    assert "lowest-direct" in (ROOT / ".ci" / "versions").read_text()


def test_every_imported_package_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = list(PROJECT["dependencies"])
    asked += [one for name in extras if name != "dev" for one in extras[name]]
    declared = {re.split(r"[\[<>=]", one)[0] for one in asked}
    needed = {INSTALLED_BY.get(name, name) for name in imported()}
    assert {"scipy", "joblib"} <= needed  # imported inside functions too
    assert needed <= declared
