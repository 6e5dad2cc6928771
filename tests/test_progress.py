from __future__ import annotations

import pytest

from ontarget._progress import progress_bar, working


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


def test_a_bar_can_say_what_is_done_now(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("starting", 100, unit="%") as reached:
        reached(43.7, "fitting")
    shown = capsys.readouterr().err
    assert "fitting" in shown
    assert "43/100" in shown


def test_work_of_unknown_length_shows_a_sign_of_life_on_a_terminal_alone(
    capsys, monkeypatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with working("reading"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with working("reading"):
        pass
    assert "reading" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"shown": False}, {"shown": True}])
def test_nothing_is_drawn_away_from_a_terminal(options, capsys, monkeypatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    count(**options)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_work_inside_work_tells_how_far_it_is_in_the_label_of_the_one_bar(
    capsys, monkeypatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("fitting", 2), progress_bar("training", 40, unit="epochs") as reached:
        reached(13)
    assert "training, 13 of 40 epochs" in capsys.readouterr().err
    with progress_bar("fitting", 2, shown=False), progress_bar("training", 40) as reached:
        reached(13)
    assert capsys.readouterr().err == ""
