"""The forged files reach every section and array of the format, as its page lists them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from ontarget._typing import AnyArray
from ontarget.modelfile import file
from ontarget.modelfile.container import Container
from ontarget.modelfile.several import load_any
from tests.attacks.monitors import Contents, contents_of, read_all
from tests.attacks.mutants import forge_array

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shares its files as Linux does")

PAGE = Path(__file__).parents[2] / "docs" / "model-file.md"
Names = set[tuple[str, str]]


def documented() -> tuple[Names, set[str]]:
    """The arrays by section, and the names of the models' arrays; ``x_…`` is any that begins so."""
    page = PAGE.read_text(encoding="utf-8")
    sections, models = (
        page.split("### Sections")[1].split("### What a monitor's reader")[0].split("### Models")
    )
    found: Names = set()
    section = ""
    for first, second in re.findall(r"^\|(.*?)\|(.*?)\|", sections, re.MULTILINE)[2:]:
        named = re.search(r"`(\w+)`", first)
        section = named[1] if named else section
        found |= {(section, name) for name in re.findall(r"`(\w+)`", second)}
    arrays: set[str] = set()
    for part in re.split(r"^\*\*`", models, flags=re.MULTILINE)[1:]:
        text, _, table = part.partition("\n\n|")
        prefix = re.search(r"names\s+(?:all\s+)?begin\s+with `(\w+_)`", text)
        for cell in re.findall(r"^\|? ?(`.*?) \|", table, re.MULTILINE):
            arrays |= {(prefix[1] if prefix else "") + n for n in re.findall(r"`(\w+…?)`", cell)}
    return found, arrays


def names_in(contents: dict[str, Contents]) -> Names:
    """Section and array of all that the files hold; all blocks are one, and so are behaviors."""
    return {
        (kind_of(section), array)
        for _, sections in contents.values()
        for section, arrays in sections.items()
        for array in arrays
    }


def kind_of(section: str) -> str:
    own = section.rpartition(".")[2]
    return "block" if own.startswith("block-") else own


class Asked(dict[str, AnyArray]):
    """The arrays of a section, which note the names that their reader asks for."""

    def __init__(self, arrays: dict[str, AnyArray], note: Callable[[str], None]) -> None:
        super().__init__(arrays)
        self._note = note

    def __getitem__(self, name: str) -> AnyArray:
        self._note(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._note(str(name))
        return super().__contains__(name)

    def get(self, name: str, other: object = None) -> object:  # type: ignore[override]
        self._note(name)
        return super().get(name, other)


@pytest.fixture
def asked() -> Iterator[Names]:
    """What any reader asks for while the test runs."""
    found: Names = set()
    section, unpacked = Container.section, file.unpacked

    def noting(name: str, arrays: dict[str, AnyArray]) -> Asked:
        return Asked(arrays, lambda array: found.add((kind_of(name), array)))

    def noted(self: Container, name: str) -> Asked:
        return noting(name, section(self, name))

    def noted_again(name: str, arrays: dict[str, AnyArray]) -> Asked:
        return noting(name, unpacked(name, dict(arrays)))

    with (
        mock.patch.object(Container, "section", noted),
        mock.patch.object(file, "unpacked", noted_again),
    ):
        yield found


def test_the_attacked_files_hold_every_array_of_the_format_page(folder: Path) -> None:
    sections, models = documented()
    held = names_in(read_all(folder))
    own = {array for section, array in held if section == "block"}
    families = {name[:-1] for name in models if name.endswith("…")}
    plain = {name for name in models if not name.endswith("…")}
    assert len(sections) > 30
    assert len(plain) > 50
    assert {one for one in held if one[0] != "block"} == sections
    assert plain <= own
    assert all(any(name.startswith(one) for name in own) for one in families)
    unlisted = {name for name in own - plain if not any(map(name.startswith, families))}
    assert unlisted == set()


def test_no_reader_asks_for_an_array_that_no_attacked_file_holds(
    folder: Path, asked: Names
) -> None:
    for path in sorted(folder.glob("*.ontarget")):
        found = load_any(path)
        for part in found.parts.values():
            assert all(part.models[block.index] is not None for block in part.blocks)
    held = names_in(read_all(folder))
    assert len(asked) > 80
    # What 0.2 knew beside these, imagined outcomes and episodes with weights, is only refused.
    gone = {("block", "imagined"), ("assure", "weights"), ("ranks", "weights")}
    assert asked - gone <= held


def test_the_forger_changes_every_array_of_a_file(folder: Path) -> None:
    whole = contents_of(folder / "stacked.ontarget")[1]
    changed: Names = set()
    for seed in range(3_000):
        forged = {name: dict(arrays) for name, arrays in whole.items()}
        forge_array(np.random.default_rng(seed), forged)
        changed |= {
            (kind_of(name), array)
            for name, arrays in whole.items()
            for array, values in arrays.items()
            if forged[name].get(array) is not values
        }
    assert changed == names_in({"stacked": ({}, whole)})
