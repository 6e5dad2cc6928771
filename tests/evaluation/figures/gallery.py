"""One of each figure, of ordinary data and of the awkward kind."""

from __future__ import annotations

from functools import cache

import numpy as np
from matplotlib.figure import Figure

from ontarget.evaluation import alarm_curve, pit_histogram, reliability
from ontarget.evaluation.figures import (
    Curve,
    alarm_chart,
    bias_chart,
    came_true_chart,
    ece_chart,
    episodes_chart,
    explanation_chart,
    mean_chart,
    outcome_fan,
    path_chart,
    pit_chart,
    svg_of,
)

RNG = np.random.default_rng(7)
P = np.round(RNG.random((6, 40)), 3)
MET = RNG.random(40) < P[-1]
LEVELS = np.array([0.05, 0.5, 0.95])
FAN = np.sort(RNG.normal(size=(6, 3)), axis=1)
NAN = np.nan

ORDINARY = {
    "what came true": lambda **to: came_true_chart(reliability(P[0], MET, 10), **to),
    "ece": lambda **to: ece_chart(
        {"low": Curve.of_repeats(P[:3] / 9), "high": Curve.of(P[4] / 9)}, floor=P[5] / 20, **to
    ),
    "episodes": lambda **to: episodes_chart(P[:, :9], MET[:9], threshold=0.4, **to),
    "mean": lambda **to: mean_chart({"p": Curve.of_repeats(P)}, rate=np.full(40, 0.5), **to),
    "pit": lambda **to: pit_chart(pit_histogram(P[0], bins=5), **to),
    "alarm": lambda **to: alarm_chart(alarm_curve(P, MET, np.full(40, 6)), **to),
    "fan": lambda **to: outcome_fan(
        FAN, LEVELS, target=(-1.0, np.inf), outcome=0.5, so_far=np.arange(6.0), **to
    ),
    "bias": lambda **to: bias_chart(
        "season", [("2020", 0.02, -0.03, 0.07), ("a $ sign", -0.2, -0.3, -0.1)], **to
    ),
    "explanation": lambda **to: explanation_chart(
        [("speed", -0.2, 0.01), ("a $ sign", 0.05, 0.0)],
        [(1.0, 0.4, True), (-2.0, 0.6, False)],
        probabilities=(0.7, 0.55),
        **to,
    ),
    "path": lambda **to: path_chart(
        np.arange(7.0), 3, ([2.0, 1.0, 0.0], [5.0, 7.0, 9.0]), target=(4.0, np.inf), **to
    ),
}
AWKWARD = {
    "one forecast": lambda: came_true_chart(reliability([1.0], [1])),
    "all met": lambda: came_true_chart(reliability(P[0], np.ones(40))),
    "bias of one part": lambda: bias_chart("site", [("all", 0.0, 0.0, 0.0)]),
    "one step of ece": lambda: ece_chart({"p": Curve([0.1], [0.05], [0.2])}, floor=[0.02]),
    "a step without ece": lambda: ece_chart({"p": Curve.of([0.1, NAN, 0.2])}, floor=[0.1, NAN, 0]),
    "one step of one episode": lambda: episodes_chart([[0.5]], [True], threshold=0.9),
    "all missed": lambda: episodes_chart(P[:, :3], [0, 0, 0]),
    "an episode never alive": lambda: episodes_chart([[0.5, NAN], [0.6, NAN]], [1, 0]),
    "one step of the mean": lambda: mean_chart({"p": Curve.of([0.5])}, rate=[0.6]),
    "a mean at the top": lambda: mean_chart({"p": Curve.of([1.0, 1.0])}),
    "pit of one bar": lambda: pit_chart(pit_histogram([0.5], bins=1)),
    "pit outside its band": lambda: pit_chart(pit_histogram(np.zeros(500), bins=4)),
    "nothing detected": lambda: alarm_chart(alarm_curve([[0.2, 0.9]], [1, 0], [1, 1])),
    "no precedents": lambda: explanation_chart(
        [("speed", 0.1, 0.0)], [], probabilities=(None, 0.5)
    ),
    "a path at its end": lambda: path_chart([0.0, 1.0], 1, ([], [])),
    "fan of one step": lambda: outcome_fan([[1.0, 2.0, 3.0]], LEVELS),
    "fan without median": lambda: outcome_fan(FAN[:, :2], [0.1, 0.9], target=(0.0, 1.0)),
    "fan for any outcome": lambda: outcome_fan(FAN, LEVELS, target=(-np.inf, np.inf)),
}
EVERY = {**ORDINARY, **AWKWARD}


@cache
def drawn(name: str, *, dark: bool = False) -> Figure:
    """A figure of the gallery, drawn once."""
    return EVERY[name](dark=True) if dark else EVERY[name]()


@cache
def written(name: str, *, dark: bool = False) -> str:
    """A figure of the gallery as SVG, written once."""
    return svg_of(drawn(name, dark=dark))
