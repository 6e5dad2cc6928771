"""The whole comparison, in a minute; it needs the engine."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ontarget.paper.battles import study
from ontarget.paper.battles.study import compare_battles
from paper.small import SMALL

pytest.importorskip("jaxmarl", reason="JaxMARL is not installed; pip install 'ontarget[smax]'")

pytestmark = pytest.mark.slow  # two engines are compiled, and every piece is fitted and drawn


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("battles")
    shares: list[float] = []
    compare_battles(SMALL, folder, report=lambda _, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    return folder


def test_results_have_both_engines_beside_the_paper(out: Path) -> None:
    results = json.loads((out / "results.json").read_text())
    for engine in ("skirmish", "smax"):
        assert results["domains"][engine]["paper"]["ece"] == 0.013
        assert len(results["domains"][engine]["noise"]["coverage"]["each"]) == SMALL.partitions
        found = results["battles"][engine]
        assert found["fought"][0] == 1.0
        assert {found["unaccounted"][kind] for kind in ("units", "rewards", "hit points")} == {0}
        assert set(found["open"]) == {"0", "10", "14", "15", "20", "25"}
    assert results["battles"]["smax"]["outcome"] != results["battles"]["skirmish"]["outcome"]


def test_the_page_is_whole_and_says_what_each_engine_is(out: Path) -> None:
    text = (out / "index.html").read_text()
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert "Neither is StarCraft data" in text
    assert "JaxMARL&#x27;s authors" in text
    assert (out / "figures" / "open-battles.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_makes_nothing_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("this piece was stored")

    for name in ("simulated", "run_partition", "even_battles", "truly_open"):
        monkeypatch.setattr(study, name, refuse)
    before = (out / "results.json").read_bytes()
    compare_battles(SMALL, out)
    assert (out / "results.json").read_bytes() == before
