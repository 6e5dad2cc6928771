from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, QuantileForest
from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container, write_container


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(
        rng.normal(size=(120, 2, 1)),
        {"a": rng.normal(size=(120, 2)), "b": rng.random((120, 2))},
        behavior={"a": "sum", "b": "max"},
    )
    path = tmp_path_factory.mktemp("several") / "m.ontarget"
    GoalMonitor(QuantileForest(n_trees=5)).fit(runs, progress=False).save(path)
    return path


def forged(saved: Path, path: Path, change: Any) -> Path:
    """The file with a changed header or other sections, and checksums that are right."""
    whole = Container.open(saved)
    header = {"behaviors": [dict(one) for one in whole.header["behaviors"]]}
    sections = {name: whole.section(name) for name in whole.sections}
    change(header, sections)
    write_container(path, header, sections)
    return path


def without_section(header: Any, sections: Any) -> None:
    del sections["b.ranks"]


def without_name(header: Any, sections: Any) -> None:
    header["behaviors"][1]["name"] = 3


def same_name(header: Any, sections: Any) -> None:
    header["behaviors"][1]["name"] = "a"


def strange_signal(header: Any, sections: Any) -> None:
    header["behaviors"][0]["signal"] = ["x"]


def nobody(header: Any, sections: Any) -> None:
    header["behaviors"] = []


def no_list(header: Any, sections: Any) -> None:
    header["behaviors"] = 7


def other_features(header: Any, sections: Any) -> None:
    monitor = dict(header["behaviors"][1]["monitor"])
    monitor["features"] = [{**monitor["features"][0], "name": "other"}]
    header["behaviors"][1]["monitor"] = monitor


CHANGES = [
    without_section,
    without_name,
    same_name,
    strange_signal,
    nobody,
    no_list,
    other_features,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_forged_file_of_several_behaviors_is_refused(
    saved: Path, tmp_path: Path, change: Any
) -> None:
    path = forged(saved, tmp_path / "forged.ontarget", change)
    with pytest.raises(ModelFileError):
        GoalMonitor.load(path)


def test_the_file_says_what_each_behavior_reads(saved: Path) -> None:
    found = GoalMonitor.load(saved)
    assert {name: one.spec for name, one in found.readings.items()} == {"a": "sum:a", "b": "max:b"}
