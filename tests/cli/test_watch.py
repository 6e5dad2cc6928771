from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from ontarget import Episodes, GoalMonitor, Target
from ontarget.cli import main
from ontarget.cli.live import Desk
from ontarget.cli.live_view import LiveView, Track, chart, sparkline
from ontarget.monitor import AlarmRule
from tests.monitor.walks import walks

from .river import call, messages, river

TARGET = Target.at_least(-60.0)


def lines(*streams: list[Any]) -> str:
    return "".join(json.dumps(message) + "\n" for stream in streams for message in stream)


def watched(stream: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    arguments = ["watch", river().model, "--target", "-60:", *options]
    result = call(arguments, input=stream)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def positions(met: bool) -> list[int]:
    flags = TARGET.contains(Episodes.read(river().new).outcomes)
    return [i for i, flag in enumerate(flags.tolist()) if flag == met]


def test_each_line_is_answered_as_a_watch_would() -> None:
    stream = messages(0)
    answers = watched(lines(stream))
    watch = GoalMonitor.load(river().model).watch(TARGET)
    for message, answer in zip(stream[:-1], answers[:-1], strict=True):
        outlook = watch.step(message["state"], message.get("reward", 0.0))
        assert (answer["agent"], answer["t"], answer["p"]) == ("a", outlook.t, outlook.p)
        assert answer["state"] == outlook.state.name
        assert "end" not in answer
    assert (answers[-1]["state"], answers[-1]["end"]) == ("DONE", True)


def test_agents_of_one_stream_do_not_touch_each_other() -> None:
    first, second = messages(1, "a"), messages(2, "b")
    woven = [message for pair in zip(first, second, strict=True) for message in pair]
    answers = watched(lines(woven))
    assert [a for a in answers if a["agent"] == "a"] == watched(lines(first))
    assert [b for b in answers if b["agent"] == "b"] == watched(lines(second))


def test_an_ended_run_frees_its_agent_for_the_next() -> None:
    answers = watched(lines(messages(1), messages(2)))
    assert answers[51:] == watched(lines(messages(2)))


def test_a_run_closed_by_its_last_state_may_be_ended_and_begun_again() -> None:
    stream = messages(1)
    last = stream[-1]
    closing = {"agent": "a", "state": stream[0]["state"], "reward": last["reward"]}
    answers = watched(lines(stream[:-1], [closing, last], messages(2)))
    assert [one["state"] for one in answers[50:52]] == ["DONE", "DONE"]
    assert answers[50] == answers[51]
    assert answers[52]["t"] == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "a line needs an object"),
        ('{"agent": "a"}', 'a line needs a "state"'),
        ('{"state": {"edge_0": 1}}', "edge_1"),
        ('{"state": null}', ""),
        ('{"state": [1, 2]}', ""),
        ('{"state": [1e999, 0, 0, 0, 0, 0, 0]}', "edge_0"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "reward": 3}', "nothing is earned before"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "behavior": "x"}', "behavior needs a number"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "group": "x"}', "without groups"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "group": {}}', "without groups"),
        ('{"reward": 1, "end": true}', "before its first step"),
        ('{"state": ' + "9" * 5_000 + "}", ""),
    ],
)
def test_a_bad_line_is_unknown_with_its_reason(line: str, reason: str) -> None:
    first, *others = watched(line + "\n" + lines(messages(0, "other")))
    assert first["state"] == "UNKNOWN"
    assert reason in first["reason"]
    assert first.get("p") is None
    assert others == watched(lines(messages(0, "other")))


def test_bytes_that_are_no_text_are_unknown() -> None:
    arguments = ["watch", river().model, "--target", "-60:"]
    result = call(arguments, input=b"\xff\xfe\n" + lines(messages(0)[:1]).encode())
    assert result.exit_code == 0
    states = [json.loads(line)["state"] for line in result.stdout.splitlines()]
    assert states[0] == "UNKNOWN"
    assert states[1] != "UNKNOWN"


def test_a_missing_reward_is_nothing_and_a_null_one_is_unknown() -> None:
    states = [message["state"] for message in messages(0)[:3]]
    stream = [{"state": states[0], "reward": None}, {"state": states[1]}]
    assert all(one["state"] != "UNKNOWN" for one in watched(lines(stream)))
    stream.append({"state": states[2], "reward": None})
    assert watched(lines(stream))[2]["state"] == "UNKNOWN"


def test_an_alarm_fails_the_command_only_if_asked_to() -> None:
    failing = lines(messages(positions(met=False)[0]))
    assert any(one["state"] == "ALARM" for one in watched(failing))
    watched(failing, "--fail-on-alarm", code=3)
    watched(failing, "--fail-on-alarm", "--alarm-below", "0", code=0)


def test_the_promised_threshold_is_the_libraries() -> None:
    rule = GoalMonitor.load(river().model).watch(TARGET, false_alarm_rate="0.1").rule
    stream = lines(messages(positions(met=False)[0]))
    for one in watched(stream, "--false-alarm-rate", "0.1"):
        if one["state"] in ("OK", "ALARM"):
            assert (one["state"] == "ALARM") == (one["p"] < rule.threshold)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--alarm-below", "2"], 1, "alarm_below needs a probability from 0 to 1"),
        (["--false-alarm-rate", "0.0001"], 1, "needs at least 9999 assure episodes"),
        (["--alarm-below", "0.5", "--false-alarm-rate", "0.1"], 1, "not both"),
        (["--for-steps", "0"], 2, "--for-steps"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_before_the_first_line(
    options: list[str], code: int, message: str
) -> None:
    result = call(["watch", river().model, "--target", "-60:", *options], input="")
    assert result.exit_code == code
    assert message in result.stderr


def test_groups_are_told_by_their_lines() -> None:
    monitor = GoalMonitor(group="group").fit(walks(900, groups=2), progress=False)
    desk = Desk(monitor, Target.at_least(0.0), alarm_below=0.5)
    state = {"state": [0.0, 0.0]}
    stream = [{"agent": g, "group": g, **state} for g in ("0", "1", "2")]
    found = list(desk.answers(json.dumps(one) for one in stream))
    for g in ("0", "1"):
        expected = monitor.watch(Target.at_least(0.0), group=g).step([0.0, 0.0])
        assert found[int(g)]["p"] == expected.p
    assert (found[2]["state"], "group needs one of" in found[2]["reason"]) == ("UNKNOWN", True)


def drawn(view: LiveView, width: int = 80, height: int = 24) -> str:
    """What stands on a terminal of that size."""
    console = Console(record=True, force_terminal=True, width=width, height=height, file=_Nowhere())
    console.print(view)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    return text


class _Nowhere:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def view_of(*streams: list[Any], threshold: float = 0.5) -> LiveView:
    desk = Desk(GoalMonitor.load(river().model), TARGET, alarm_below=threshold)
    view = LiveView(TARGET, desk.rule, "river.ontarget")
    for answer in desk.answers(lines(*streams).splitlines()):
        view.update(answer)
    return view


@pytest.mark.parametrize("width", [80, 120])
def test_a_single_run_is_drawn_with_threshold_state_and_last_change(width: int) -> None:
    failing = positions(met=False)[0]
    text = drawn(view_of(messages(failing)[:-1]), width)
    assert "target [-60, inf)  alarm below 0.5" in text
    assert "ALARM at step" in text
    assert text.count("●") == 50
    assert "┄" in text
    assert " 50 % ┤" in text
    ended = drawn(view_of(messages(failing)), width)
    assert "DONE at step 50: ended outside the target" in ended


def test_on_a_terminal_the_stream_is_drawn_and_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = lines(messages(positions(met=False)[0]))
    command = ["ontarget", "watch", str(river().model), "--target", "-60:", "--fail-on-alarm"]
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr("sys.stdin", io.StringIO(stream))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    text = capsys.readouterr().out
    assert "51 lines, 1 agent, 1 run ended" in text
    assert "river.ontarget" in text


def test_before_the_first_line_the_view_waits() -> None:
    assert "waiting for the first line" in drawn(view_of())


def test_a_fleet_is_drawn_in_rows_with_alarms_first() -> None:
    good, bad = positions(met=True)[:4], positions(met=False)[:1]
    streams = [messages(i, f"robot-{i}")[:40] for i in (*good, *bad)]
    view = view_of(*streams)
    rows = drawn(view, 120).splitlines()
    assert rows[2].startswith(f"robot-{bad[0]} ")
    assert "▁" in rows[2]
    assert "█" in rows[3]
    assert "and 2 more agents" in drawn(view, 120, height=8)
    assert view.summary().startswith("200 lines, 5 agents, 0 runs ended")


def test_unknown_readings_are_drawn_as_such() -> None:
    stream = [*messages(0)[:3], {"agent": "a", "state": None}]
    view = view_of(stream)
    assert "?" in drawn(view)
    assert "UNKNOWN at step 3" in drawn(view)
    view.update({"line": 7, "state": "UNKNOWN", "reason": "not JSON: x"})
    assert "line 7: not JSON: x" in drawn(view)


def test_the_band_is_drawn_around_p() -> None:
    track = Track("a")
    track.add({"t": 0, "low": 0.1, "p": 0.5, "high": 0.9, "state": "OK"})
    rows = chart(track, 0.0, 40, rows=11).plain.splitlines()
    cells = [row[7] for row in rows]
    assert cells == [" ", *"░░░░", "●", *"░░░░", "┄"]


def test_a_new_run_clears_the_picture() -> None:
    track = Track("a")
    track.add({"t": 0, "low": 0.1, "p": 0.2, "high": 0.3, "state": "ALARM"})
    track.add({"t": 1, "low": 0.0, "p": 0.0, "high": 0.0, "state": "DONE", "end": True})
    track.add({"t": 0, "low": 0.8, "p": 0.9, "high": 1.0, "state": "OK"})
    assert (len(track.points), track.p, track.runs, track.alarms) == (1, 0.9, 1, 1)


def test_sparkline_keeps_to_its_width() -> None:
    assert sparkline([0.0, 0.13, 0.99, 1.0], 3) == "▂██"


def test_a_rule_with_a_promise_is_titled_so() -> None:
    desk = Desk(GoalMonitor.load(river().model), TARGET, false_alarm_rate="0.1", for_steps=2)
    text = drawn(LiveView(TARGET, desk.rule, "m"), 120)
    assert "for 2 steps (0.1 false alarms promised)" in text
    assert isinstance(desk.rule, AlarmRule)
