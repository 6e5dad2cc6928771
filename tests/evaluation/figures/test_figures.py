"""Each figure draws the data that it was given."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from ontarget.evaluation import (
    PitHistogram,
    alarm_curve,
    first_alarms,
    reliability,
)
from ontarget.evaluation.figures import (
    Curve,
    alarm_chart,
    came_true_chart,
    ece_chart,
    episodes_chart,
    mean_chart,
    outcome_fan,
    pit_chart,
)
from tests.evaluation.figures.gallery import EVERY, FAN, LEVELS, MET, ORDINARY, P, drawn


def line(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def ends_of(band):
    """Lower and upper end of a filled band at each of its steps."""
    corners = band.get_paths()[0].vertices
    at = {}
    for x, y in corners:
        at.setdefault(round(x, 9), []).append(y)
    places = sorted(at)
    return np.array([min(at[x]) for x in places]), np.array([max(at[x]) for x in places])


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_says_what_it_shows(name) -> None:
    figure = drawn(name)
    assert isinstance(figure, Figure)
    assert figure.get_label()
    assert figure.axes[-1].get_xlabel()
    for axes in figure.axes:  # an axis says what it measures, or its ticks are names
        assert axes.get_ylabel() or axes.get_yticklabels()[0].get_text().isalpha()


@pytest.mark.parametrize("name", ORDINARY)
def test_no_legend_lies_on_data(name) -> None:
    figure = drawn(name)
    for axes in figure.axes:
        if axes.get_legend() is not None:
            bottom = axes.get_legend().get_window_extent().y0
            assert bottom >= axes.get_window_extent().y1 - 1.0


@pytest.mark.parametrize("name", ORDINARY)
def test_tick_labels_do_not_overlap(name) -> None:
    figure = drawn(name)
    axes = figure.axes[-1]
    low, high = axes.get_xlim()
    shown = [
        label.get_window_extent()
        for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= tick <= high
    ]
    assert len(shown) >= 2
    assert all(right.x0 - left.x1 > 3 for left, right in itertools.pairwise(shown))


def test_came_true_chart_marks_what_chance_hardly_explains() -> None:
    p = np.repeat([0.2, 0.8], 200)
    met = np.concatenate([np.arange(200) % 5 == 0, np.arange(200) % 2 == 0])  # 20 % and 50 %
    found = reliability(p, met, bins=5)
    top, bottom = came_true_chart(found).axes
    assert [one.get_label() for one in top.containers] == [
        "its 95 % bar reaches the line",
        "its 95 % bar misses the line",
    ]
    (right, off) = (one.lines[0] for one in top.containers)
    assert (right.get_xdata(), right.get_ydata()) == pytest.approx((0.2, 0.2))
    assert (off.get_xdata(), off.get_ydata()) == pytest.approx((0.8, 0.5))
    assert right.get_marker() != off.get_marker()
    assert {one.get_linestyle() for one in (right, off)} == {"None"}  # a zigzag shows nothing
    assert bottom.get_yscale() == "linear"
    np.testing.assert_array_equal(bottom.patches[0].get_data().values, found.count)
    np.testing.assert_allclose(bottom.patches[0].get_data().edges, found.edges)
    for one, k in zip(top.containers, (1, 4), strict=True):
        (bar,) = one.lines[2][0].get_segments()
        np.testing.assert_allclose(bar[:, 1], [found.low[k], found.high[k]])


def test_ece_chart_draws_mean_and_one_deviation_each_side() -> None:
    repeats = P[:3]
    (axes,) = ece_chart({"low": Curve.of_repeats(repeats)}, floor=P[4]).axes
    np.testing.assert_allclose(line(axes, "low").get_ydata(), repeats.mean(axis=0))
    spread = repeats.std(axis=0, ddof=1)
    low, high = ends_of(axes.collections[0])
    np.testing.assert_allclose(low, repeats.mean(axis=0) - spread)
    np.testing.assert_allclose(high, repeats.mean(axis=0) + spread)
    np.testing.assert_array_equal(line(axes, "chance alone").get_ydata(), P[4])
    assert labels(axes) == ["low", "chance alone"]


def test_episodes_chart_tells_met_from_missed_without_colour() -> None:
    panel = P[:, :4].copy()
    panel[3:, 1] = np.nan
    (axes,) = episodes_chart(panel, [1, 0, 0, 1], threshold=0.5).axes
    met = [drawn for drawn in axes.lines if drawn.get_marker() == "o"]
    missed = [drawn for drawn in axes.lines if drawn.get_marker() == "X"]
    np.testing.assert_array_equal(met[1].get_ydata(), panel[:, 3])
    np.testing.assert_array_equal(missed[0].get_ydata(), panel[:3, 1])
    assert missed[0].get_markevery() == [2]
    assert met[0].get_linestyle() != missed[0].get_linestyle()
    alarms = line(axes, "first alarm")
    first = first_alarms(panel, 0.5)
    np.testing.assert_array_equal(alarms.get_xdata(), first[first >= 0])
    assert line(axes, "alarm below").get_ydata()[0] == 0.5
    assert labels(axes) == ["target met", "target missed", "alarm below", "first alarm"]


def test_mean_chart_draws_the_rate_and_does_not_blow_up_small_swings() -> None:
    curve = Curve.of([0.900, 0.901, 0.899])
    assert not curve.has_band
    assert Curve([0.5], [0.4], [0.5]).has_band
    (axes,) = mean_chart({"p": curve}, rate=[0.9, 0.9, 0.91]).axes
    np.testing.assert_array_equal(line(axes, "p").get_ydata(), curve.value)
    np.testing.assert_array_equal(line(axes, "target met").get_ydata(), [0.9, 0.9, 0.91])
    low, high = axes.get_ylim()
    assert 0.1 <= high - low < 0.12
    (axes,) = drawn("a mean at the top").axes
    assert axes.get_ylim()[1] < 1.01


def test_a_fan_of_one_step_is_a_bar() -> None:
    (axes,) = drawn("fan of one step").axes
    corners = axes.collections[0].get_paths()[0].vertices
    assert np.ptp(corners[:, 0]) > 0.1
    assert (corners[:, 1].min(), corners[:, 1].max()) == (1.0, 3.0)


def test_pit_chart_draws_counts_and_sets_bars_outside_the_band_apart() -> None:
    found = PitHistogram(
        edges=[0.0, 0.5, 0.75, 1.0],
        count=[5, 50, 9],
        expected=[32.0, 16.0, 16.0],
        low=[2, 2, 2],
        high=[60, 40, 40],
        band=0.9,
    )
    (axes,) = pit_chart(found).axes
    inside, outside = axes.containers
    assert [(bar.get_x(), bar.get_height()) for bar in inside] == [(0.0, 5), (0.75, 9)]
    assert [(bar.get_x(), bar.get_height()) for bar in outside] == [(0.5, 50)]
    assert outside[0].get_hatch()
    assert not inside[0].get_hatch()
    drawn = [patch.get_data() for patch in axes.patches if hasattr(patch, "get_data")]
    np.testing.assert_array_equal(drawn[0].values, found.high)
    np.testing.assert_array_equal(drawn[0].baseline, found.low)
    assert "90 % band, all bars" in labels(axes)


def test_alarm_chart_draws_the_curve_and_writes_the_marked_rates() -> None:
    curve = alarm_curve(P, MET, np.full(40, 6))
    top, bottom = alarm_chart(curve, marks=(0.1,), most=0.5).axes
    x, y = line(top, "in time").get_data()
    for false, in_time in zip(x, y, strict=True):
        assert in_time == curve.detection_rate[curve.false_alarm_rate == false].max()
    assert "or too late" not in labels(top)
    i, first = (np.flatnonzero(curve.false_alarm_rate <= rate)[-1] for rate in (0.1, 0.0))
    assert [text.get_text() for text in top.texts] == [f"{100 * curve.detection_rate[i]:.0f} %"]
    assert [text.get_text() for text in bottom.texts] == [f"{curve.lead_steps[i, 1]:.3g}"]
    assert line(bottom, "median").get_ydata()[0] == curve.lead_steps[first, 1]


def test_alarm_chart_tells_alarms_in_time_from_those_that_came_too_late() -> None:
    curve = alarm_curve(P, MET, np.full(40, 6), decided=np.full(40, 3))
    top, bottom = alarm_chart(curve, marks=(), most=0.5).axes
    in_time, either = (line(top, label).get_ydata() for label in ("in time", "or too late"))
    assert (in_time <= either).all()
    assert (in_time < either).any()
    assert line(bottom, "median").get_ydata().max() <= 3


def test_outcome_fan_draws_bands_median_target_and_end() -> None:
    (axes,) = outcome_fan(
        FAN, LEVELS, target=(-9.0, np.inf), outcome=0.25, so_far=np.arange(6.0), unit="reward"
    ).axes
    np.testing.assert_allclose(ends_of(axes.collections[0]), (FAN[:, 0], FAN[:, 2]))
    np.testing.assert_array_equal(line(axes, "median").get_ydata(), FAN[:, 1])
    np.testing.assert_array_equal(line(axes, "so far").get_ydata(), np.arange(6.0))
    assert line(axes, "ended at").get_xydata().tolist() == [[6.0, 0.25]]
    assert axes.get_ylim()[0] <= -9.0
    assert labels(axes)[0] == "middle 90 %"


def test_series_differ_in_line_and_marker_as_well_as_in_colour() -> None:
    curves = {name: Curve.of(P[i]) for i, name in enumerate("abcd")}
    drawn = ece_chart(curves).axes[0].lines
    assert len({d.get_marker() for d in drawn}) == len({d.get_color() for d in drawn}) == 4


@pytest.mark.parametrize("name", ORDINARY)
def test_dark_figures_show_the_same_on_a_dark_ground(name) -> None:
    light, dark = drawn(name), drawn(name, dark=True)
    assert light.get_facecolor()[0] > 0.9
    assert dark.get_facecolor()[0] < 0.2
    for one, other in zip(light.axes, dark.axes, strict=True):
        for a, b in zip(one.lines, other.lines, strict=True):
            np.testing.assert_array_equal(a.get_xydata(), b.get_xydata())
            assert a.get_color() != b.get_color()
