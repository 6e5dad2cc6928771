from __future__ import annotations

import io
import json
import math
import re
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ontarget import (
    AlarmRule,
    Below,
    Episodes,
    Goal,
    GoalMonitor,
    Promised,
    RuledOut,
    Target,
    Watch,
)
from ontarget.cli import main
from ontarget.cli.live import _so_far
from ontarget.cli.view import Course, LiveView, Track
from ontarget.models import Marginal
from tests.walks import walks

from .river import call, messages, river

TARGET = Target.at_least(-60.0)
HALF = Below(0.5)


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


def statuses(watch: Watch, stream: list[Any]) -> list[str]:
    """The status of a watch after each message of a stream that ends its run."""
    steps = [watch.step(one["state"], one.get("reward", 0.0)) for one in stream[:-1]]
    return [one.status.name for one in (*steps, watch.end(stream[-1]["reward"]))]


def test_each_line_is_answered_as_a_watch_would() -> None:
    stream = messages(0)
    answers = watched(lines(stream))
    watch = GoalMonitor.load(river().model).watch(TARGET, false_alarm_rate=0.05)
    for message, answer in zip(stream[:-1], answers[:-1], strict=True):
        outlook = watch.step(message["state"], message.get("reward", 0.0))
        assert (answer["agent"], answer["t"], answer["p"]) == ("a", outlook.t, outlook.p)
        assert answer["status"] == outlook.status.name
        assert "end" not in answer
        assert "outcome" not in answer
    assert (answers[-1]["status"], answers[-1]["end"]) == ("DONE", True)
    earned = sum(one.get("reward", 0.0) for one in stream)
    assert answers[-1]["outcome"] == pytest.approx(earned)


def test_a_run_that_lost_a_reward_ends_without_an_outcome() -> None:
    stream = messages(0)
    stream[20]["reward"] = None
    last = watched(lines(stream))[-1]
    assert last["end"]
    assert "outcome" not in last


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
    assert [one["status"] for one in answers[50:52]] == ["DONE", "DONE"]
    assert answers[50] == answers[51]
    assert answers[52]["t"] == 0


def test_an_infinite_category_is_an_unknown_one() -> None:
    first, *_ = watched('{"state": [1e999, 0, 0, 0, 0, 0, 0]}\n')
    assert (first["status"], first["unseen"]) == ("OK", {"edge_0": "inf"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "a line needs to be a JSON object"),
        ('{"agent": "a"}', 'a line needs a "state"'),
        ('{"state": {"edge_0": 1}}', "edge_1"),
        ('{"state": null}', ""),
        ('{"state": [1, 2]}', ""),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "reward": 3}', "nothing is earned before"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "behavior": "x"}', "behavior needs a number"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "group": "x"}', "without groups"),
        ('{"state": [0, 0, 0, 0, 0, 0, 0], "group": {}}', "`group` needs the name of a group"),
        ('{"reward": 1, "end": true}', "before its first step"),
        ('{"state": ' + "9" * 5_000 + "}", ""),
    ],
)
def test_a_bad_line_is_unknown_with_its_reason(line: str, reason: str) -> None:
    first, *others = watched(line + "\n" + lines(messages(0, "other")))
    assert first["status"] == "UNKNOWN"
    assert reason in first["reason"]
    assert first.get("p") is None
    assert others == watched(lines(messages(0, "other")))


def test_bytes_that_are_no_text_are_unknown() -> None:
    arguments = ["watch", river().model, "--target", "-60:"]
    result = call(arguments, input=b"\xff\xfe\n" + lines(messages(0)[:1]).encode())
    assert result.exit_code == 0
    states = [json.loads(line)["status"] for line in result.stdout.splitlines()]
    assert states[0] == "UNKNOWN"
    assert states[1] != "UNKNOWN"


def test_a_missing_reward_is_nothing_and_a_null_one_is_unknown() -> None:
    states = [message["state"] for message in messages(0)[:3]]
    stream = [{"state": states[0], "reward": None}, {"state": states[1]}]
    assert all(one["status"] != "UNKNOWN" for one in watched(lines(stream)))
    stream.append({"state": states[2], "reward": None})
    assert watched(lines(stream))[2]["status"] == "UNKNOWN"


def test_an_alarm_fails_the_command_only_if_asked_to() -> None:
    failing = lines(messages(positions(met=False)[0]))
    assert any(one["status"] == "ALARM" for one in watched(failing))
    watched(failing, "--fail-on-alarm", code=3)
    watched(failing, "--fail-on-alarm", "--alarm-below", "0", code=0)


def test_the_promised_alarm_is_the_librarys() -> None:
    watch = GoalMonitor.load(river().model).watch(TARGET, false_alarm_rate="0.1")
    failing = messages(positions(met=False)[0])
    expected = [
        watch.step(one["state"], one.get("reward", 0.0)).status.name for one in failing[:-1]
    ]
    answers = watched(lines(failing), "--false-alarm-rate", "0.1")
    assert [one["status"] for one in answers[:-1]] == expected
    raised = next(one for one in answers if one["status"] == "ALARM")
    assert raised["p"] < watch.trigger.threshold


def test_unless_told_otherwise_watch_raises_the_alarm_that_evaluate_checks() -> None:
    failing = lines(messages(positions(met=False)[0]))
    assert watched(failing) == watched(failing, "--false-alarm-rate", "0.05")
    result = call(["watch", river().model, "--target", "-11:"])
    assert result.exit_code == 1
    assert "needs at least 19 assure episodes" in result.stderr
    assert "or alarm without a promise: --alarm-below P" in result.stderr


def test_an_alarm_that_would_stay_silent_is_told_in_one_line() -> None:
    arguments = ["watch", river().model, "--target", "-60:", "--alarm-below", "0"]
    result = call(arguments, input=lines(messages(0)[:1]))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["status"] == "OK"
    assert result.stderr.startswith("ontarget: caution: an alarm below p = ")
    assert result.stderr.count("\n") == 1
    assert "alarm_curve" not in result.stderr
    assert call([*arguments[:-1], "0.9"], input="").stderr == ""


def test_a_ruled_out_target_raises_the_alarm_at_its_rate() -> None:
    watch = GoalMonitor.load(river().model).watch(TARGET, alarm=RuledOut("0.1"))
    failing = messages(positions(met=False)[0])
    answers = watched(lines(failing), "--ruled-out", "0.1")
    for message, answer in zip(failing[:-1], answers[:-1], strict=True):
        assert (
            answer["status"] == watch.step(message["state"], message.get("reward", 0)).status.name
        )
    raised = next(one for one in answers if one["status"] == "ALARM")
    assert raised["plausibility"] <= 0.1
    assert raised["reason"].startswith("plausibility = ")
    # What is ruled out stays so.
    known = [one["status"] for one in answers[:-1]]
    assert known == ["OK"] * raised["t"] + ["ALARM"] * (50 - raised["t"])
    watched(lines(failing), "--ruled-out", "0.1", "--fail-on-alarm", code=3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--ruled-out", "0.1", "--alarm-below", "0.5"], 1, "--ruled-out or --alarm-below"),
        (["--ruled-out", "0.1", "--false-alarm-rate", "0.1"], 1, "--false-alarm-rate, not both"),
        (["--ruled-out", "0.1", "--clear-above", "0.5"], 1, "--ruled-out or --clear-above"),
        (["--ruled-out", "2"], 1, "--ruled-out needs a number strictly between 0 and 1, got '2'"),
        (["--alarm-below", "2"], 1, "--alarm-below needs a probability from 0 to 1"),
        (["--false-alarm-rate", "0.0001"], 1, "needs at least 9999 assure episodes"),
        (["--alarm-below", "0.5", "--false-alarm-rate", "0.1"], 1, "not both"),
        (["--for-steps", "0"], 2, "--for-steps"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_before_the_first_line(
    options: list[str], code: int, message: str
) -> None:
    arguments = ["watch", river().model, "--target", "-60:", *options]
    result = call(arguments, input="", env={"COLUMNS": "200"})
    assert result.exit_code == code
    assert message in result.stderr


@cache
def two_groups() -> GoalMonitor:
    return GoalMonitor(group="group").fit(walks(900, groups=2), progress=False)


def test_groups_are_told_by_their_lines() -> None:
    monitor = two_groups()
    sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.5)
    state = {"state": [0.0, 0.0]}
    stream = [{"agent": g, "group": g, **state} for g in ("0", "1", "2")]
    found = [sessions.answer(one) for one in stream]
    for g in ("0", "1"):
        expected = monitor.watch(Target.at_least(0.0), group=g).step([0.0, 0.0])
        assert found[int(g)]["p"] == expected.p
    assert (found[2]["status"], "`group` needs one of" in found[2]["reason"]) == ("UNKNOWN", True)


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


def view_of(*streams: list[Any], alarm: AlarmRule = HALF) -> LiveView:
    sessions = GoalMonitor.load(river().model).sessions(TARGET, alarm=alarm)
    view = LiveView(sessions.contract, "river.ontarget")
    for message in chain(*streams):
        view.update(sessions.answer(message))
    return view


@pytest.mark.parametrize("width", [80, 120])
def test_a_single_run_is_drawn_with_threshold_state_and_last_change(width: int) -> None:
    failing = positions(met=False)[0]
    text = drawn(view_of(messages(failing)[:-1]), width)
    assert "target at least −60  alarm below p = 50 %" in text
    assert "ALARM at step" in text
    (bottom,) = [line for line in text.splitlines() if line.startswith("  0 % ┤")]
    assert sum(letter in "▁▂▃▄▅▆▇█" for letter in bottom) % 50 == 0  # as many for each step
    assert "┄" in text
    assert " alarm 50 %" in text
    assert "your own limit, nothing promised" in text
    ended = drawn(view_of(messages(failing)), width)
    assert "DONE at step 50: ended outside the target" in ended


def test_on_a_terminal_the_stream_is_drawn_and_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = lines(messages(positions(met=False)[0]))
    command = ["ontarget", "watch", str(river().model), "--target", "-60:", "--fail-on-alarm"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr("sys.stdin", io.StringIO(stream))
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    text = capsys.readouterr().out
    assert "51 lines, 1 agent, 1 run ended" in text
    assert "river.ontarget" in text


def test_an_alarm_is_drawn_with_its_reason() -> None:
    sessions = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF)
    view = LiveView(sessions.contract, "river", explain=lambda agent: f"p moved by wind of {agent}")
    alarm = {"agent": "a", "t": 3, "p": 0.1, "spread": [0.05, 0.2], "status": "ALARM"}
    view.update({**alarm, "p": 0.9, "status": "OK", "t": 2})
    assert "p moved by" not in drawn(view)
    view.update(alarm)
    assert "p moved by wind of a" in drawn(view)
    view.tracks["a"].why = "p moved by " + "wind " * 24 + "here"
    assert "here\n" in drawn(view)  # a long reason is told to its end
    view.update({**alarm, "p": 0.8, "status": "OK", "t": 4})
    assert "p moved by" not in drawn(view)


def test_an_alarm_by_plausibility_is_titled_so_and_has_no_line_in_the_chart() -> None:
    text = drawn(view_of(messages(positions(met=False)[0])[:-1], alarm=RuledOut(0.1)))
    assert "alarm at or below plausibility = 0.1" in text
    assert "ALARM at step" in text
    assert "┄" not in text


def test_before_the_first_line_the_view_waits() -> None:
    assert "waiting for the first line" in drawn(view_of())


def test_a_fleet_is_drawn_in_rows_with_alarms_first() -> None:
    good, bad = positions(met=True)[:4], positions(met=False)[:1]
    streams = [messages(i, f"robot-{i}")[:40] for i in (*good, *bad)]
    view = view_of(*streams)
    rows = drawn(view, 120).splitlines()
    assert rows[3].startswith(f"robot-{bad[0]} ")
    assert "▁" in rows[3]
    assert "▇" in rows[4]
    assert "and 2 more agents" in drawn(view, 120, height=9)
    assert view.summary().startswith("200 lines, 5 agents, 0 runs ended")


def test_unknown_readings_are_drawn_as_such() -> None:
    stream = [*messages(positions(met=True)[0])[:3], {"agent": "a", "state": None}]
    view = view_of(stream)
    assert "?" in drawn(view)
    assert "UNKNOWN at step 3" in drawn(view)
    assert view.alarms == 0
    view.update({"line": 7, "status": "UNKNOWN", "reason": "not JSON: x"})
    assert "line 7: not JSON: x" in drawn(view)


def test_an_alarm_stands_in_the_picture_while_nothing_is_known() -> None:
    stream = messages(0)[:5]
    stream[3] = {"agent": "a", "state": None, "reward": 0.0}
    blind = view_of(stream[:4], alarm=Below(1.0))
    assert "? ALARM" in drawn(blind)
    assert "in alarm since step 0; " in drawn(blind)
    seeing = view_of(stream, alarm=Below(1.0))
    assert "in alarm since" not in drawn(seeing)
    assert seeing.alarms == 1


def test_a_category_that_no_run_had_is_told() -> None:
    sessions = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF)
    view = LiveView(sessions.contract, "river")
    known = {"agent": "a", "t": 0, "p": 0.9, "spread": [0.8, 0.95], "status": "OK"}
    view.update({**known, "unseen": {"weather": "snow"}})
    assert "no recorded run had weather 'snow': it counts as missing" in drawn(view)
    view.update({**known, "t": 1})
    assert "snow" not in drawn(view)


def test_a_new_run_clears_the_picture() -> None:
    track = Track("a")
    track.add({"t": 0, "p": 0.2, "status": "ALARM"})
    track.add({"t": 1, "p": 0.0, "status": "DONE", "end": True})
    track.add({"t": 0, "p": 0.9, "status": "OK"})
    assert (track.course.steps, track.p, track.over) == (1, 0.9, False)
    assert (track.first_alarm, track.change) == (None, "")


def test_the_first_alarm_stays_below_the_bars_and_in_the_rows() -> None:
    contract = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF).contract
    view = LiveView(contract, "river", explain=lambda agent: "p fell by the wind")
    for t, p in enumerate([0.9, 0.2, 0.8, 0.9]):
        view.update({"agent": "a", "t": t, "p": p, "status": "ALARM" if p < 0.5 else "OK"})
    text = drawn(view, 100, 30)
    assert "a  step 3 of at most 50  90.0 % OK, no alarm" in text
    assert "▲ first alarm, step 1" in text
    (axis,) = [line for line in text.splitlines() if "└" in line]
    assert axis.index("▲") == axis.index("└") + 2
    assert "p fell by the wind" not in text  # it is no longer in alarm
    ended = {"agent": "a", "t": 4, "p": 0.0, "status": "DONE", "end": True, "outcome": -2.5}
    view.update({**ended, "reason": "ended outside the target at -2.5"})
    text = drawn(view, 100, 30)
    assert "DONE at step 4: ended outside the target at -2.5" in text
    assert "DONE, target missed" in text
    assert "p fell by the wind" in text
    for name in "bcd":
        view.update({"agent": name, "t": 0, "p": 0.9, "status": "OK"})
    (row,) = [line for line in drawn(view, 120).splitlines() if line.startswith("a ")]
    assert " step 1 " in row


def bars_of(view: LiveView, width: int, height: int = 30) -> tuple[list[str], str, str]:
    """The rows of the bars without their labels, the axis below them, and its numbers."""
    found = drawn(view, width, height).splitlines()
    (axis,) = [place for place, line in enumerate(found) if "└" in line]
    rows = [line.split("┤")[1].rstrip() for line in found[:axis] if "┤" in line]
    return rows, found[axis].split("└")[1].rstrip(), found[axis + 1]


def told_p(*p: float, first: int = 0, alarm: AlarmRule = HALF) -> LiveView:
    """A view of one agent, with these p's from the step ``first`` on."""
    view = view_of(alarm=alarm)
    for t, one in enumerate(p, start=first):
        view.update({"agent": "a", "t": t, "p": None if one != one else one, "status": "OK"})
    return view


def test_a_bar_is_as_high_as_p() -> None:
    rows, _, _ = bars_of(told_p(1.0, 0.55, 0.0, math.nan, alarm=Below(0.05)), 100)
    assert len(rows) == 10
    assert [row.ljust(4)[0] for row in rows] == [*"█████████", "┄"]  # the alarm's limit is seen
    assert [row.ljust(4)[1] for row in rows] == [*"    ▄████", "┄"]
    assert rows[-1].startswith("┄┄▁?")


@pytest.mark.parametrize("width", [20, 40, 60, 100, 200])
@pytest.mark.parametrize("steps", [1, 20, 51, 300, 20_000])
def test_the_bars_show_the_whole_run_in_every_width(width: int, steps: int) -> None:
    view = told_p(*[0.9] * (steps - 1), 0.6)
    rows, axis, numbers = bars_of(view, width)
    assert max(map(len, drawn(view, width, 30).splitlines())) <= width
    assert int(numbers.split()[1]) == 0
    assert int(numbers.split()[2].replace(",", "")) >= steps - 1
    used = len(rows[-1])
    assert used >= min(steps, len(axis) // 9)  # a run is seen, however far away its end is
    if steps >= 51:
        assert used == len(axis)


def test_an_agent_that_is_heard_of_late_begins_at_its_step() -> None:
    _, axis, numbers = bars_of(told_p(0.9, 0.9, first=20), 100)
    assert numbers.split() == ["step", "20", "50"]
    assert len(axis) % 31 == 0


def test_a_low_terminal_gets_rows_instead_of_bars() -> None:
    assert "└" not in drawn(told_p(0.9, 0.2), 80, 10)
    assert "p over time" in drawn(told_p(0.9, 0.2), 80, 10)


def test_steps_that_share_a_bar_show_the_lowest_p_that_is_known() -> None:
    course = Course()
    for p in (0.1, 0.9) * 2_000:
        course.add(p)
    course.add(math.nan)
    every, lowest = course.fitted(30, course.steps)
    assert set(lowest[:-1]) == {0.1}
    assert len(lowest) <= 30
    assert every * len(lowest) >= 4_001
    short = Course()
    for p in (0.0, 0.15, 0.99, math.nan):
        short.add(p)
    assert short.line(4) == "▁▂▇·"
    assert short.line(2) == "▁▇"


def test_what_a_run_has_is_told_until_it_ends() -> None:
    sessions = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF)
    view = LiveView(sessions.contract, "river", so_far=lambda agent: _so_far(sessions, agent))
    stream = messages(0)
    for message in stream[:20]:
        view.update(sessions.answer(message))
    total = sum(one.get("reward", 0.0) for one in stream[:20])
    told = re.search(r"so far −([\d.]+)", drawn(view))
    assert told is not None
    assert -float(told[1]) == pytest.approx(total, rel=1e-4)
    for message in stream[20:]:
        view.update(sessions.answer(message))
    assert "so far" not in drawn(view)
    assert "DONE, target " in drawn(view)
    assert _so_far(sessions, "nobody") == ""


def test_a_goal_shows_where_each_behavior_stands() -> None:
    rng = np.random.default_rng(0)
    gain, spent = rng.normal(size=(2, 150, 4))
    runs = Episodes.from_arrays(
        np.cumsum(gain, axis=1)[:, :, None] - gain[:, :, None],
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    monitor = GoalMonitor(Marginal()).fit(runs, progress=False)
    sessions = monitor.sessions(Goal.parse("gain >= 0 & spent <= 0.5"), alarm=HALF)
    view = LiveView(sessions.contract, "glider", so_far=lambda agent: _so_far(sessions, agent))
    view.update(sessions.answer({"agent": "a", "state": [0.0]}))
    brought = {"reward": 3.0, "energy": 2.0}  # a high gain, and far too much spent
    view.update(sessions.answer({"agent": "a", "state": [3.0], "reward": brought}))
    assert "so far gain 3, spent 2   alone: spent " in drawn(view, 120)


def test_a_rule_with_a_promise_is_titled_so() -> None:
    text = drawn(view_of(alarm=Promised("0.1", for_steps=2)), 120)
    assert " for 2 steps\n" in text.replace(" " * 4, "")
    rule = Promised("0.1", for_steps=2)
    low, high = (
        GoalMonitor.load(river().model).watch(TARGET, alarm=rule).trigger.promised.spread(0.95)
    )
    likely = f"{100 * low:.1f} to {100 * high:.1f} % likely for this threshold (95 %)"
    assert f"false alarms: at most 10 % promised on average; {likely}" in text
    text = drawn(view_of(alarm=Promised("0.2", confidence="0.9")), 120)
    assert "false alarms: at most 20 % promised, with 90 % confidence" in text


def test_a_replay_answers_as_the_stream_would() -> None:
    replay = ["--replay", str(river().new)]
    ids = [str(one) for one in Episodes.read(river().new).ids[:2]]
    first, second = (watched(lines(messages(i, ids[i]))) for i in range(2))
    assert watched("", *replay, "--run", ids[1]) == second
    both = watched("", *replay, "--run", ids[0], "--run", ids[1])
    assert [one for one in both if one["agent"] == ids[0]] == first
    assert [one["agent"] for one in both[:4]] == [ids[0], ids[1], ids[0], ids[1]]
    every = watched("", *replay)
    assert every[:102] == [*first, *second]
    assert len(every) == 120 * 51


def test_a_replay_of_runs_that_end_early_ends_them_there() -> None:
    from ontarget.cli.replay import Replay

    runs = walks(40, ragged=True)
    monitor = GoalMonitor().fit(walks(300), progress=False)
    sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.5)
    found = monitor.evaluate(runs, Target.at_least(0.0), resamples=2)
    for together in (True, False):
        answers = [sessions.answer(said) for said in Replay(runs, together=together)]
        assert sum("end" in one for one in answers) == 40
        for i, name in enumerate(runs.ids):
            own = [one for one in answers if one["agent"] == name]
            assert [one["p"] for one in own] == [
                *found.p[: runs.lengths[i], i].tolist(),
                float(found.met[i]),
            ]


def test_a_behavior_that_is_read_is_replayed() -> None:
    from ontarget.cli.replay import Replay

    rng = np.random.default_rng(0)
    heights = rng.normal(size=(200, 4)).cumsum(axis=1)
    states = np.concatenate([np.zeros((200, 1)), heights[:, :-1]], axis=1)[..., None]
    runs = Episodes.from_arrays(states, None, behavior="column:height", behavior_values=heights)
    monitor = GoalMonitor().fit(runs, progress=False)
    sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.5)
    answers = [sessions.answer(said) for said in Replay(runs.take([3, 5]), together=True)]
    assert [one["status"] for one in answers[-2:]] == ["DONE", "DONE"]
    assert [one["p"] for one in answers[-2:]] == (heights[[3, 5], -1] >= 0.0).tolist()
    assert all(one["status"] in ("OK", "ALARM") for one in answers[:-2])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--run", "3"], 2, "--run and --speed belong to --replay"),
        (["--speed", "3"], 2, "--run and --speed belong to --replay"),
        (["--replay", "RUNS", "--speed", "0"], 2, "--speed needs a number of steps above 0"),
        (["--replay", "RUNS", "--run", "nobody"], 1, "--run needs the id of an episode"),
        (["--replay", "nothing.csv"], 1, "nothing.csv: no such file"),
    ],
)
def test_a_replay_that_cannot_be_is_a_mistake(options: list[str], code: int, message: str) -> None:
    given = [str(river().new) if one == "RUNS" else one for one in options]
    environment = {"COLUMNS": "200"}
    result = call(["watch", river().model, "--target", "-60:", *given], env=environment)
    assert result.exit_code == code
    assert message in result.stderr


def test_null_is_a_missing_value_where_training_missed_some() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 3, 2))
    states[::5, :, 0] = np.nan
    monitor = GoalMonitor().fit(
        Episodes.from_arrays(states, rng.normal(size=(300, 3)), features=["wind", "load"]),
        progress=False,
    )
    sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.5)
    expected = monitor.watch(Target.at_least(0.0)).step([math.nan, 0.5]).p
    for state in ({"wind": None, "load": 0.5}, [None, 0.5]):
        one = sessions.answer({"agent": str(state), "state": state})
        assert one["p"] == expected
    bad = sessions.answer({"agent": "b", "state": {"wind": 1.0, "load": None}})
    assert bad["status"] == "UNKNOWN"
    assert bad["reason"] == "feature 'load' is missing, and it was never missing in training"


def test_an_agent_may_begin_its_next_run_in_another_group() -> None:
    monitor = two_groups()
    sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.5)
    stream = [
        {"agent": "a", "group": "0", "state": [0.5, 0.0]},
        {"agent": "a", "end": True, "reward": 0.1},
        {"agent": "a", "group": "1", "state": [0.5, 0.0]},
    ]
    last = [sessions.answer(one) for one in stream][-1]
    assert last["p"] == monitor.watch(Target.at_least(0.0), group="1").step([0.5, 0.0]).p


def test_runs_that_are_over_make_room_for_others() -> None:
    view = view_of()
    for i in range(1_500):
        view.update({"agent": f"run-{i}", "t": 0, "p": 0.5, "status": "ALARM"})
        view.update({"agent": f"run-{i}", "t": 1, "p": 0.0, "status": "DONE", "end": True})
    assert len(view.tracks) <= 1_000
    assert view.summary() == "3,000 lines, 1,500 agents, 1,500 runs ended, 1,500 alarms raised"


def test_a_run_that_its_horizon_closed_is_counted_once() -> None:
    stream = messages(1)
    closing = {"agent": "a", "state": stream[0]["state"], "reward": stream[-1]["reward"]}
    view = view_of([*stream[:-1], closing, stream[-1]])
    assert "1 run ended" in view.summary()
    assert view.tracks["a"].course.steps == 51


def test_a_stream_that_is_interrupted_is_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Endless(io.StringIO):
        def readline(self, limit: int | None = -1, /) -> str:
            if line := super().readline(limit):
                return line
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["ontarget", "watch", str(river().model), "--target", "-60:"])
    monkeypatch.setattr("sys.stdin", Endless(lines(messages(0)[:1])))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "1 line, 1 agent, 0 runs ended" in capsys.readouterr().out


def test_a_target_that_no_recorded_run_met_is_said_to_be_out_of_reach() -> None:
    arguments = ["watch", river().model, "--target", "1000:", "--false-alarm-rate", "0.05"]
    result = call(arguments)
    assert result.exit_code == 1
    assert "none of the 120 assure episodes met the target [1000, inf)" in result.stderr
