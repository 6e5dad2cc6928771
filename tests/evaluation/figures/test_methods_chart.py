from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import InputError
from ontarget.evaluation import reliability
from ontarget.evaluation.figures import Curve, figure_bytes, methods_chart

RNG = np.random.default_rng(0)
P = RNG.uniform(size=500)
FOUND = reliability(P, RNG.uniform(size=500) < P, bins=5)
CURVE = Curve.of([0.2, 0.1, 0.05])


def test_each_method_has_a_look_of_its_own_in_both_panels() -> None:
    figure = methods_chart({"a": FOUND, "b": FOUND}, {"a": CURVE, "b": CURVE})
    left, right = figure.axes
    shown = [line for line in left.lines if line.get_marker() in "os"]
    assert [line.get_marker() for line in shown] == ["o", "s"]
    assert [line.get_marker() for line in right.lines] == ["o", "s"]
    assert shown[0].get_linestyle() != shown[1].get_linestyle()


def test_only_the_first_method_has_bars_and_the_axis_says_so() -> None:
    left, _ = methods_chart({"a": FOUND, "b": FOUND}, {"a": CURVE, "b": CURVE}).axes
    assert [one.has_yerr for one in left.containers] == [True, False]
    assert left.get_ylabel() == "target met (bars: 95 %, a)"


def test_a_reference_is_a_dotted_line_with_its_name() -> None:
    figure = methods_chart({"a": FOUND}, {"a": CURVE}, floor=("nothing known", [0.2, 0.2, 0.2]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "nothing known"]
    assert figure_bytes(figure, "png") == figure_bytes(figure, "png")


def test_a_reference_far_above_is_named_and_leaves_room_for_the_others() -> None:
    figure = methods_chart({"a": FOUND}, {"a": CURVE}, floor=("nothing known", [0.8, 0.9, 0.9]))
    assert figure.axes[1].get_ylim()[1] < 0.3
    assert figure.legends[0].get_texts()[1].get_text() == "nothing known: 0.80 and more, above"


def test_panels_of_different_methods_are_refused() -> None:
    with pytest.raises(InputError, match=r"same methods, got \['a'\] and \['b'\]"):
        methods_chart({"a": FOUND}, {"b": CURVE})
