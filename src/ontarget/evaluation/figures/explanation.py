"""A figure of what changed a probability, and of the outcomes that similar recorded runs had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ontarget._plain import plain
from ontarget.evaluation.figures._style import canvas, dotted, legend_above, theme_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 10  # causes that are drawn


def explanation_chart(
    causes: Sequence[tuple[str, float, float]],
    precedents: Sequence[tuple[float, float, bool]],
    *,
    probabilities: tuple[float | None, float],
    outcome: str = "outcome",
    dark: bool = False,
) -> Figure:
    """A chart of what each cause added to a probability, and of the precedents' outcomes.

    Precedents are the recorded runs that count most for the probability.

    Parameters
    ----------
    causes
        For each cause: its name, its part of the change, and the error of this part; largest first.
    precedents
        For each precedent: the outcome if this run goes on as the precedent did, the precedent's
        weight, and whether this outcome meets the target.
    probabilities
        The probability before the change and now; the first is None if there is no change to
        explain.
    outcome
        The name of the outcome.
    dark
        Whether the figure is for a dark background.
    """
    theme, shown = theme_of(dark), list(causes[:_MOST])
    was, now = probabilities
    label = "What each cause added to the probability, and where the precedents lead"
    size = (8.4, 1.6 + 0.3 * max(len(shown), 4))
    with canvas(theme, size, columns=(1.2, 1.0), label=label) as (figure, (left, right)):
        parts = [100 * change for _, change, _ in shown]
        colors = [theme.blue if part >= 0 else theme.vermilion for part in parts]
        errors = [100 * error for _, _, error in shown]
        left.barh(range(len(shown)), parts, color=colors)
        if any(errors):
            left.errorbar(parts, range(len(shown)), xerr=errors, fmt="none", ecolor=theme.ink)
        left.set_yticks(range(len(shown)), [plain(name) for name, _, _ in shown])
        left.invert_yaxis()
        left.axvline(0.0, color=theme.muted, linewidth=0.8)
        change = "" if was is None else f": {100 * was:.3g} % to {100 * now:.3g} %"
        left.set(xlabel="points of probability", title=f"what moved p{change}")
        for meets, color, name in (
            (True, theme.blue, "meets the target"),
            (False, theme.vermilion, "misses it"),
        ):
            own = [(ends, 100 * weight) for ends, weight, met in precedents if met == meets]
            if own:
                right.vlines(*zip(*[(ends, 0.0, w) for ends, w in own], strict=True), color=color)
                right.plot(*zip(*own, strict=True), "o" if meets else "s", color=color, label=name)
        right.set_xlabel(f"{plain(outcome)} if it goes on as the precedents did")
        right.set_ylabel("weight (%)")
        if not precedents:
            right.set_title("precedents: none are known")
        right.set_ylim(bottom=0.0)
        right.axhline(0.0, **dotted(theme.muted))
        legend_above(right, columns=2)
    return figure
