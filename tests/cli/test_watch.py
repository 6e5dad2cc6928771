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
from ontarget.cli.view import change
from ontarget.cli.view.change import ChangeHint
from ontarget.cli.view.chart import outcome_chart, probability_chart
from ontarget.cli.view.course import Course, Point
from ontarget.cli.view.digits import alike
from ontarget.cli.view.foretold import foretold, placed
from ontarget.cli.view.live_view import LiveView, sparkline
from ontarget.cli.view.track import Track
from ontarget.models import QuantileForest
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
        (["--ruled-out", "0.1", "--alarm-below", "0.5"], 2, "--ruled-out or --alarm-below"),
        (["--ruled-out", "0.1", "--false-alarm-rate", "0.1"], 2, "--false-alarm-rate, not both"),
        (["--ruled-out", "0.1", "--clear-above", "0.5"], 2, "--ruled-out or --clear-above"),
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
    chart = "".join(line for line in text.splitlines() if "┤" in line)
    assert chart.count("●") + chart.count("▼") == 50
    assert chart.count("▼") > 0
    assert "your own limit, nothing promised" in text
    assert "┄" in text
    assert " 50 % ┤" in text
    ended = drawn(view_of(messages(failing)), width)
    assert "DONE at step 50: ended outside the target" in ended


def test_on_a_terminal_the_stream_is_drawn_and_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = lines(messages(positions(met=False)[0]))
    command = ["ontarget", "watch", str(river().model), "--target", "-60:", "--fail-on-alarm"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for more in ([], ["--paths"]):
        monkeypatch.setattr("sys.argv", [*command, *more])
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
    assert "all recorded runs" not in drawn(view)
    view.tracks["a"].why = "of the runs that p was based on, 90 % miss the target from there"
    met = TARGET.contains(Episodes.read(river().runs).outcomes)
    told = re.search(r"from there \(of all\s+recorded runs, about (\d+) %\)", drawn(view))
    assert told is not None
    assert int(told[1]) == pytest.approx(100 * (1 - met.mean()), abs=8)  # it is of a part of them
    view.update({**alarm, "p": 0.8, "status": "OK", "t": 4})
    assert "p moved by" not in drawn(view)


def test_the_path_to_come_is_drawn_as_ranges() -> None:
    monitor = GoalMonitor(QuantileForest(n_trees=8), steps_per_model=3)
    monitor.fit(walks(150), progress=False)
    sessions = monitor.sessions(Target.at_least(0.0), alarm=HALF)
    view = LiveView(
        sessions.contract, "walk", foretell=lambda agent: foretold(monitor, sessions, agent)
    )
    for t in range(2):
        view.update(sessions.answer({"agent": "a", "state": [0.5, 0.1], "reward": 0.2 * t}))
    band = monitor.path_band(1, [[0.5, 0.1]], 0.2, 0.9, all_steps=True)
    assert band.steps.tolist() == [2, 3, 4, 5, 6]
    ends = alike(*(one for k in (1, 3, 4) for one in (band.lower[0, k], band.upper[0, k])))
    said = [f"{low} to {high}" for low, high in zip(ends[::2], ends[1::2], strict=True)]
    assert f"path (90 %): step 3 {said[0]}, step 5 {said[1]}, end {said[2]}" in drawn(view, 120)
    view.update(sessions.answer({"agent": "a", "reward": 0.2, "end": True}))
    assert "path (90" not in drawn(view, 120)
    assert foretold(monitor, sessions, "nobody") is None


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
    assert "UNKNOWN at step 3: in alarm since step 0; " in drawn(blind)
    seeing = view_of(stream, alarm=Below(1.0))
    assert "UNKNOWN at step 3, ALARM at step 4: p = " in drawn(seeing)
    assert seeing.alarms == 1


def course_of(*points: tuple[float, float, float]) -> Course:
    course = Course()
    for point in points:
        course.add(Point.of(*point))
    return course


def test_the_band_is_drawn_around_p() -> None:
    chart = probability_chart(0.0, 9, width=28, rows=11)
    *rows, axis, numbers = chart.drawn(course_of((0.1, 0.5, 0.9)), 0).plain.splitlines()
    cells = [row[9] for row in rows]
    assert cells == [" ", *"░░░░", "●", *"░░░░", "┄"]
    assert rows[-1] == "    0 % ┤" + "┄" * 10  # no room for the line's name
    assert axis == "        └┬─┬─┬─┬─┬─"
    assert numbers == "   step  0 2 4 6 8"


def test_a_short_run_is_drawn_wider_on_a_wide_terminal() -> None:
    chart = probability_chart(0.0, 9, width=50, rows=11)
    *rows, axis, numbers = chart.drawn(course_of((0.1, 0.5, 0.9)), 0).plain.splitlines()
    assert rows[1][9:] == "░░░░"
    assert rows[5][9:] == "●░░░"  # no hole beside the dot
    assert axis == "        └┬───────┬───────┬───────┬───────┬───────"
    assert numbers == "   step  0       2       4       6       8"


@pytest.mark.parametrize("steps", [20, 50, 61, 1_000, 20_000])
def test_a_chart_shows_the_whole_run_and_numbers_its_steps(steps: int) -> None:
    points = [(0.2, 0.2, 0.2)] * steps
    points[0], points[-1] = (0.9, 0.9, 0.9), (0.5, 0.5, 0.5)
    chart = probability_chart(0.1, 30_000, width=40, rows=11)
    *rows, axis, numbers = chart.drawn(course_of(*points), steps - 1).plain.splitlines()
    assert all(len(row) <= 40 for row in (*rows, axis, numbers))
    assert rows[1][9] == "●"  # the first step
    assert "●" in rows[5]  # the last one
    marks = [int(mark) for mark in numbers.split()[1:]]
    assert marks[0] == 0
    columns = [at - 9 for at, letter in enumerate(axis) if letter == "┬"]
    (every,) = {mark / column for mark, column in zip(marks[1:], columns[1:], strict=True)}
    assert every * 31 >= steps


def test_a_line_is_named_however_long_the_run_is() -> None:
    chart = probability_chart(0.1, 240, width=100, rows=11)
    *rows, _, _ = chart.drawn(course_of(*[(0.2, 0.2, 0.2)] * 161), 160).plain.splitlines()
    assert rows[-2].endswith("┄ alarm 10 %")
    assert all(len(row) <= 100 for row in rows)


@pytest.mark.parametrize("step", [32, 160, 239, 240])
def test_the_end_of_a_long_run_is_on_the_axis_once_some_of_it_is_seen(step: int) -> None:
    chart = probability_chart(0.1, 240, width=100, rows=11)
    course = course_of(*[(0.2, 0.2, 0.2)] * (step + 1))
    *_, axis, numbers = chart.drawn(course, step).plain.splitlines()
    assert numbers.split()[-1] == "240"
    assert len(axis) <= 100


def test_charts_of_p_and_of_outcomes_have_their_steps_in_line() -> None:
    course = course_of((0.1, 0.5, 0.9))
    probability = probability_chart(0.185, 12, width=100, rows=11).drawn(course, 0).plain
    outcome = outcome_chart(course.fitted(90)[1], [-2.3], 12, width=100, rows=11)
    assert outcome is not None
    assert probability.splitlines()[-2:] == outcome.drawn(course, 0).plain.splitlines()[-2:]
    assert "┄ alarm 18.5 %" in probability


def test_steps_that_share_a_column_show_the_least_and_the_most() -> None:
    course = course_of(*[(p, p, p) for p in (0.1, 0.9) * 40], (math.nan,) * 3)
    every, points = course.fitted(30)
    assert every == 4
    assert set(points[:-1]) == {Point(0.1, 0.1, 0.9, 0.9)}
    assert math.isnan(points[-1].least)


def test_what_a_run_has_is_drawn_between_the_ends_of_its_target() -> None:
    course = course_of((-2.0, 0.0, 6.0), (1.0, 1.5, 4.0))
    ahead = [Point(0.0, 0.0, 2.0, 2.0), Point(-1.0, -1.0, 5.0, 5.0)]
    points = [*course.fitted(30)[1], *ahead]
    chart = outcome_chart(points, [4.0, math.inf], 5, width=15, rows=9)
    assert chart is not None
    *rows, _, _ = chart.drawn(course, 1, ahead).plain.splitlines()
    assert [row[9:13] for row in rows] == [
        *("░   ", "░  ▒", "░░┄▒", "░░ ▒", "░●▒▒", "░░▒▒", "● ▒▒", "░  ▒", "░   "),
    ]
    assert rows[0].strip().startswith("6.00 ┤░")
    assert rows[-1].strip().startswith("−2.00 ┤░")
    assert rows[2].rstrip().endswith("┄┄")
    assert outcome_chart([Point(*(math.nan,) * 4)], [4.0], 5, width=40, rows=9) is None


def test_what_a_run_has_and_where_it_will_end_is_told() -> None:
    monitor = GoalMonitor.load(river().model)
    sessions = monitor.sessions(TARGET, alarm=HALF)
    view = LiveView(sessions.contract, "river", locate=lambda agent: placed(sessions, agent))
    stream = messages(0)
    for message in stream[:20]:
        view.update(sessions.answer(message))
    place = view.tracks["a"].place
    assert place is not None
    assert place.so_far == pytest.approx(sum(one.get("reward", 0.0) for one in stream[:20]))
    assert place.low < place.high
    assert place.in_words in drawn(view)
    high = drawn(view, height=44)
    low, upper, so_far = alike(place.low, place.high, place.so_far)
    assert f"● so far {so_far}   ░ likely to end at {low} to {upper}" in high
    assert "target" in high.split("likely to end")[1]
    assert placed(sessions, "nobody") == {}
    for message in stream[20:]:
        view.update(sessions.answer(message))
    total = sum(one.get("reward", 0.0) for one in stream)
    assert view.tracks["a"].outcomes[""].fitted(60)[1][-1].least == pytest.approx(total)
    for over in (drawn(view), drawn(view, height=44)):
        assert "likely to end at" not in over  # how it ended is known
        assert "DONE, target " in over


def test_a_goal_shows_the_likely_culprit_and_where_each_behavior_stands() -> None:
    rng = np.random.default_rng(0)
    gain, spent = rng.normal(size=(2, 150, 4))
    runs = Episodes.from_arrays(
        np.cumsum(gain, axis=1)[:, :, None] - gain[:, :, None],
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    monitor = GoalMonitor(QuantileForest(n_trees=8), steps_per_model=2).fit(runs, progress=False)
    sessions = monitor.sessions(Goal.parse("gain >= 0 & spent <= 0.5"), alarm=HALF)
    view = LiveView(
        sessions.contract,
        "glider",
        foretell=lambda agent: foretold(monitor, sessions, agent),
        locate=lambda agent: placed(sessions, agent),
    )
    view.update(sessions.answer({"agent": "a", "state": [0.0]}))
    brought = {"reward": 3.0, "energy": 2.0}  # a high gain, and far too much spent
    view.update(sessions.answer({"agent": "a", "state": [3.0], "reward": brought}))
    track, text = view.tracks["a"], drawn(view, 120, height=44)
    assert track.culprit == "spent"
    assert "alone: spent " in text
    assert "spent, the likely culprit: ● so far 2.00 " in text
    assert "gain: so far 3.00, likely to end at" in text
    assert "spent path (90 %): " in text
    assert "target" in text.split("likely culprit")[1]
    assert "spent: so far 2.00, likely to end at" in drawn(view, 120, height=26)
    view.update(sessions.answer({"agent": "a", "state": [3.0], "reward": {"reward": 3.0}}))
    assert "? " in drawn(view, 120, height=44)
    ended = sessions.answer({"agent": "a", "reward": brought, "end": True})
    assert ended["outcome"] == {"gain": 9.0, "spent": None}  # a reading of energy was left out


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
    track.add({"t": 0, "low": 0.1, "p": 0.2, "high": 0.3, "status": "ALARM"})
    track.add({"t": 1, "low": 0.0, "p": 0.0, "high": 0.0, "status": "DONE", "end": True})
    track.add({"t": 0, "low": 0.8, "p": 0.9, "high": 1.0, "status": "OK"})
    assert (track.course.steps, track.latest.least, track.over) == (1, 0.9, False)


def test_alarms_that_no_longer_fit_in_the_line_are_counted() -> None:
    track = Track("a")
    for t, status in enumerate(["ALARM", "OK", "ALARM"]):
        track.add({"t": t, "p": 0.5, "status": status})
    assert track.history == "ALARM at step 0, OK at step 1, ALARM at step 2"
    track.add({"t": 3, "p": 0.0, "status": "DONE", "end": True})
    after = "OK at step 1, ALARM at step 2, DONE at step 3"
    assert track.history == f"first ALARM at step 0, {after}"
    track.add({"t": 0, "p": 0.1, "status": "ALARM"})
    assert track.history == "ALARM at step 0"
    for t, status in enumerate(["OK", "ALARM", "OK", "ALARM", "OK", "ALARM"], start=1):
        track.add({"t": t, "p": 0.5, "status": status})
    assert track.history == (
        "first ALARM at step 0, 1 more alarm, ALARM at step 4, OK at step 5, ALARM at step 6"
    )


def test_the_first_alarm_stays_in_the_chart_the_legend_and_the_rows() -> None:
    contract = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF).contract
    view = LiveView(contract, "river", explain=lambda agent: "p fell by the wind")
    for t, p in enumerate([0.9, 0.2, 0.8, 0.9]):
        view.update({"agent": "a", "t": t, "p": p, "status": "ALARM" if p < 0.5 else "OK"})
    text = drawn(view, 100, 30)
    assert "● p   ▼ p below the alarm's limit" in text
    assert "a  step 3 of at most 50  90.0 % OK, no alarm" in text
    assert "steps per column" not in text
    assert "▲ first alarm, step 1" in text
    (axis,) = [line for line in text.splitlines() if "└" in line]
    assert axis.index("▲") > axis.index("└")
    assert "p fell by the wind" not in text  # it is no longer in alarm
    ended = {"agent": "a", "t": 4, "p": 0.0, "status": "DONE", "end": True, "outcome": -2.85952}
    view.update({**ended, "reason": "ended outside the target at -2.85952"})
    text = drawn(view, 100, 30)
    assert "DONE at step 4: ended outside the target at −2.86" in text
    assert "p fell by the wind" in text
    for name in "bcd":
        view.update({"agent": name, "t": 0, "p": 0.9, "status": "OK"})
    (row,) = [line for line in drawn(view, 120).splitlines() if line.startswith("a ")]
    assert " step 1 " in row


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ((-3.7234, -1.8, -2.5591), ("−3.72", "−1.80", "−2.56")),
        ((-2.9441, -2.9102), ("−2.944", "−2.910")),  # a narrow range asks for no more digits
        ((12_345.6, -3.0), ("12,346", "−3")),
        ((math.inf, math.nan, 0.25), ("∞", "?", "0.250")),
        ((0.0,), ("0.00",)),
    ],
)
def test_numbers_of_a_run_are_written_to_the_same_digit(
    values: tuple[float, ...], written: tuple[str, ...]
) -> None:
    assert alike(*values) == written


def test_an_alarm_is_told_in_per_cent_like_p_in_the_headline() -> None:
    track = Track("a", limit="alarm below 18.5 %")
    told = {"t": 0, "p": 0.1374, "status": "ALARM", "reason": "p = 0.137, alarm below 0.185"}
    track.add(told)
    assert track.change == "ALARM at step 0: p = 13.7 %, alarm below 18.5 %"
    other = Track("a", limit="alarm below 18.5 %")
    other.add({**told, "p": 0.0, "reason": "the target is out of reach with reward at 3"})
    assert other.change.endswith("the target is out of reach with reward at 3")


def hint_of(monitor: GoalMonitor, target: Target) -> ChangeHint:
    return ChangeHint(lambda: monitor.harm_guard(target))


def told_of(name: str, p: float, *, met: bool) -> list[dict[str, Any]]:
    """The answers of a run of two steps."""
    start = {"agent": name, "t": 0, "p": p, "status": "OK"}
    end = {"agent": name, "t": 1, "p": float(met), "status": "DONE", "end": True}
    return [start, end]


def test_a_p_that_has_become_too_high_is_hinted_at() -> None:
    monitor = GoalMonitor.load(river().model)
    view = LiveView(monitor.sessions(TARGET, alarm=HALF).contract, "river")
    view.change = hint_of(monitor, TARGET)
    found = monitor.evaluate(Episodes.read(river().new), TARGET, resamples=2)
    for i, (p, met) in enumerate(zip(found.p[0].tolist(), found.met.tolist(), strict=True)):
        for answer in told_of(f"n{i}", p, met=met):
            view.update(answer)
    assert view.change.in_words == ""  # these are like the recorded ones
    for i in range(200):
        for answer in told_of(f"late{i}", 0.8, met=False):
            view.update(answer)
    said = view.change.in_words
    assert re.match(
        r"p has become too high: of \d+ runs that ended here, \d+\.\d % met the target, and p had "
        r"said \d+\.\d % at their start\. ",
        said,
    )
    assert "`ontarget drift` tells more" in said
    assert "! p has become too high" in drawn(view, 160, 30)
    promising = LiveView(monitor.sessions(TARGET, alarm=Promised(0.1)).contract, "river")
    assert "at most 10 % promised" in drawn(promising, 160, 30)
    promising.change = view.change
    assert "false alarms: no rate is promised since p has become too high" in drawn(
        promising, 160, 30
    )


def test_runs_that_do_not_count_do_not_hold_up_the_hint() -> None:
    monitor = GoalMonitor.load(river().model)
    hint = hint_of(monitor, TARGET)
    hint.update({"agent": "silent", "t": 0, "p": 0.8, "status": "OK"})  # it never ends
    for i in range(300):
        start, end = told_of(f"taken{i}", 0.8, met=False)
        hint.update(start)
        hint.update({**end, "intervened": True})
    assert hint.in_words == ""
    for _ in range(300):
        for answer in told_of("a", 0.8, met=False):  # one agent, run after run
            hint.update(answer)
    assert hint.in_words


def test_runs_that_never_end_are_not_kept_for_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "_MOST_OPEN", 10)
    hint = hint_of(GoalMonitor.load(river().model), TARGET)
    for i in range(10):
        assert len(hint._open) == i
        hint.update({"agent": f"a{i}", "t": 0, "p": 0.8, "status": "OK"})
    for answer in told_of("b", 0.8, met=False):
        hint.update(answer)
    assert (hint._open, hint._guard, hint.in_words) == ({}, None, "")


def test_a_monitor_without_a_guard_has_no_hint() -> None:
    hint = hint_of(two_groups(), Target.at_least(0.0))
    for i in range(100):
        for answer in told_of(f"r{i}", 1.0, met=False):
            hint.update(answer)
    assert hint.in_words == ""


def test_a_sparkline_shows_the_whole_run_in_its_width() -> None:
    course = course_of(*[(p, p, p) for p in (0.0, 0.15, 0.99, 1.0)])
    assert sparkline(course, 4) == "▁▂▇▇"
    assert sparkline(course, 3) == "▁▇"


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
        (["--replay", "RUNS", "--run", "nobody"], 1, "no episode 'nobody' in new.parquet"),
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
    assert drawn(view).count("●") == 51 + 1  # and in the legend


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


def test_a_line_across_leaves_the_range_to_be_seen() -> None:
    chart = probability_chart(0.5, 9, width=50, rows=11)
    drawn_run = chart.drawn(course_of((0.1, 0.9, 0.9), (0.6, 0.9, 0.9)), 1)
    line = drawn_run.plain.splitlines()[5]
    assert line.startswith(" " * 3 + "50 % ┤░░░░┄┄┄┄")
    at = drawn_run.plain.index("50 % ┤░") + 6
    assert {str(one.style) for one in drawn_run.spans if one.start <= at < one.end} == {"red"}


def test_the_legend_says_how_many_steps_share_a_column() -> None:
    contract = GoalMonitor.load(river().model).sessions(TARGET, alarm=HALF).contract
    view = LiveView(contract, "river")
    for t in range(300):
        view.update({"agent": "a", "t": t, "p": 0.9, "status": "OK"})
    text = drawn(view, 100, 30)
    told = re.search(r"(\d+) steps per column", text)
    assert told is not None
    (chart,) = [line for line in text.splitlines() if "●" in line and "┤" in line]
    assert chart.count("●") == -(-300 // int(told[1]))
    assert "a  step 299  90.0 %" in text  # more than any recorded run had
