"""Files of every released version are read, and answer as they did."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from ontarget import GoalMonitor
from ontarget.errors import InputError, ModelFileError
from ontarget.modelfile.container import write_container
from refusals import refuses
from tests.attacks.monitors import KINDS, contents_of, episodes
from tests.modelfile.kept import KEPT, answers, read

FILES = sorted(
    (folder.name, path.name.removesuffix(".ontarget.gz"))
    for folder in KEPT.iterdir()
    for path in folder.glob("*.ontarget.gz")
)


def flat(told: object) -> list[object]:
    """All numbers and words of an answer, in the order of their names."""
    if isinstance(told, dict):
        return [one for name in sorted(told) for one in (name, *flat(told[name]))]
    return [one for part in told for one in flat(part)] if isinstance(told, list) else [told]


# Monitors of kinds that are gone.
GONE = {
    "boosted",
    "boosted-plain",
    "guided",
    "guided-max",
    "heavy",
    "imagined",
    "linear",
    "linear-plain",
}

NEW = {"forest-max", "counted", "guided"}  # since the release, which has no file of it


@pytest.mark.parametrize(("released", "kind"), [one for one in FILES if one[1] not in GONE])
def test_a_file_of_a_release_answers_as_it_did(released: str, kind: str, tmp_path: Path) -> None:
    kept = json.loads(gzip.decompress((KEPT / released / "answers.json.gz").read_bytes()))[kind]
    now = answers(read(KEPT / released, kind, tmp_path))
    # Another version of numba may round the last bit otherwise.
    assert flat(now) == [
        pytest.approx(one, rel=1e-12, abs=1e-14) if isinstance(one, float) else one
        for one in flat(kept)
    ]


@pytest.mark.parametrize(("released", "kind"), [one for one in FILES if one[1] in GONE])
def test_a_file_of_a_kind_that_is_gone_is_refused_when_it_is_loaded(
    released: str, kind: str, tmp_path: Path
) -> None:
    with refuses(ModelFileError, None, "ontarget 0.2"):
        read(KEPT / released, kind, tmp_path)


def test_a_file_whose_model_was_chosen_by_trials_answers_and_names_no_model(tmp_path: Path) -> None:
    kept = read(KEPT / "0.2.0", "stacked", tmp_path)
    header, sections = contents_of(tmp_path / "stacked.ontarget")
    header["parameters"] = {**header["parameters"], "model": "auto"}
    header["chosen"] = {**header["chosen"], "models": [["stacked_forest", 0.4, 0.0]]}
    write_container(tmp_path / "auto.ontarget", header, sections)
    found = GoalMonitor.load(tmp_path / "auto.ontarget")
    assert answers(found) == answers(kept)
    with refuses(InputError, "model", "'auto'"):
        found.fit(episodes(kind="category"), progress=False)


def test_every_kind_of_this_version_is_kept() -> None:
    kept = {kind for released, kind in FILES if released == version("ontarget")}
    assert set(KINDS) - NEW == kept - GONE
