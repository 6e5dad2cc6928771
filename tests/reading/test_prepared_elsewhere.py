"""The layout that other programs write, by the page that tells them how."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes
from ontarget.reading import PreparedEpisodes

PAGE = Path(__file__).parents[2] / "docs" / "prepared.md"


def test_duckdb_writes_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="pip install duckdb")
    script = re.search(r"```python\n(# file with_duckdb\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert script is not None
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 7, 80)
    runs = Episodes.from_arrays(
        [rng.normal(size=(n, 2)) for n in lengths],
        [rng.normal(size=n) for n in lengths],
        features=["speed", "load"],
    )
    (tmp_path / "runs").mkdir()
    runs.write(tmp_path / "runs" / "all.parquet")
    monkeypatch.chdir(tmp_path)
    exec(compile(script[1], "with_duckdb.py", "exec"), {})
    found = PreparedEpisodes("prepared")
    assert set(found.manifest.parts) == {"learn", "assure"}
    whole = found.episodes
    mine = runs.take(np.searchsorted(runs.ids, whole.ids))
    np.testing.assert_allclose(whole.outcomes, mine.outcomes)
    for t in range(runs.horizon):
        np.testing.assert_array_equal(whole.at(t).states, mine.at(t).states)
        np.testing.assert_allclose(whole.at(t).behavior, mine.at(t).behavior, atol=1e-12)
