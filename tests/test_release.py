"""What goes with a release says the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    newest = re.search(r"^## (\S+), ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    wheel = re.search(r"ontarget-([\d.]+)-py3", (ROOT / "docs/install.md").read_text())
    for found in (cited, newest, wheel):
        assert found is not None
        assert found[1] == version


def test_the_release_has_one_date() -> None:
    cited = re.search(r"^date-released: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    newest = re.search(r"^## \S+, (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert cited is not None
    assert newest is not None
    assert cited[1] == newest[1]


def test_every_extra_is_explained() -> None:
    page = (ROOT / "docs/install.md").read_text()
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", page, flags=re.M)))
    assert set(named) == set(PROJECT["optional-dependencies"])


def test_the_container_copies_what_is_there_and_serves_by_default() -> None:
    file = (ROOT / "deploy/Containerfile").read_text()
    for line in re.findall(r"^COPY (.+)$", file, flags=re.M):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), f"there is no {source}"
    # A build needs these and nothing else: the readme and the license are part of the wheel.
    copied = re.findall(r"^COPY (.+)$", file, flags=re.M)[0].split()
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]} <= set(copied)
    assert 'ENTRYPOINT ["ontarget", "serve"]' in file
    extra = re.search(r"'\.\[(\w+)\]'", file)
    assert extra is not None
    assert extra[1] in PROJECT["optional-dependencies"]
