from __future__ import annotations

import pytest

from ontarget._progress import progress_bar


def count(**options) -> None:
    with progress_bar("counting", 2, unit="numbers", **options) as reached:
        for done in (1, 2):
            reached(done)


def test_a_bar_tells_what_is_done_on_the_error_stream(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    count()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "counting" in captured.err
    assert "2/2" in captured.err
    assert "numbers, remaining" in captured.err


@pytest.mark.parametrize("options", [{"shown": False}, {"shown": True}])
def test_nothing_is_drawn_away_from_a_terminal(options, capsys, monkeypatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    count(**options)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
