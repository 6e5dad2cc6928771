"""Curves over time: one value per step, with or without a band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ontarget._readonly import freeze
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation._inputs import check_same_size
from ontarget.evaluation.figures._style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Curve:
    """One value per step, and a band around it from ``low`` to ``high``; NaN for no value.

    Examples
    --------
    >>> curve = Curve.of_repeats([[0.25, 0.5], [0.75, 0.5]])
    >>> print(curve.value, curve.low.round(3), curve.high.round(3))
    [0.5 0.5] [0.146 0.5  ] [0.854 0.5  ]
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        arrays = {
            name: np.asarray(getattr(self, name), dtype=np.float64)
            for name in ("value", "low", "high")
        }
        for name, array in arrays.items():
            if array.ndim != 1 or array.size == 0:
                raise InputError(
                    Argument(name), f" needs one number per step, got shape {array.shape}"
                )
        check_same_size(**arrays)
        freeze(self, **arrays)

    @classmethod
    def of(cls, value: ArrayLike) -> Self:
        """A curve without a band."""
        line = np.asarray(value, dtype=np.float64)
        return cls(line, line, line)

    @classmethod
    def of_repeats(cls, values: ArrayLike) -> Self:
        """The mean of values (repeats, steps), with a band of ± one standard deviation."""
        table = np.asarray(values, dtype=np.float64)
        if table.ndim != 2 or table.size == 0:
            raise InputError(
                Argument("values"), f" needs shape (repeats, steps), got shape {table.shape}"
            )
        mean = table.mean(axis=0)
        spread = table.std(axis=0, ddof=1) if table.shape[0] > 1 else np.zeros(mean.size)
        return cls(mean, mean - spread, mean + spread)

    @property
    def has_band(self) -> bool:
        """Whether ``high`` is above ``low`` at any step."""
        return bool((self.high > self.low).any())


def check_curves(curves: Mapping[str, Curve]) -> int:
    """The number of steps of the curves; refused if they differ or if there are no curves."""
    if not curves:
        raise InputError("a figure needs at least one curve, got none")
    steps = {name: curve.value.size for name, curve in curves.items()}
    if len(set(steps.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in steps.items())
        raise InputError(f"curves need the same number of steps, got {listed}")
    return next(iter(steps.values()))


def draw_curve(axes: Axes, name: str, curve: Curve, look: Look, *, band: str = "") -> None:
    """Draw a curve and its band. A curve with a single step becomes a marker with a bar.

    ``band`` is the band's name in the legend; without it, the legend leaves the band out.
    """
    steps = np.arange(curve.value.size)
    if curve.value.size == 1:
        reach = np.abs(np.stack([curve.value - curve.low, curve.high - curve.value]))
        axes.errorbar(
            steps, curve.value, yerr=reach, color=look.color, fmt=look.marker, capsize=3, label=name
        )
        return
    if curve.has_band:
        axes.fill_between(
            steps,
            curve.low,
            curve.high,
            color=look.color,
            alpha=0.22,
            linewidth=0,
            label=band or None,
        )
    # A few markers, at other steps for each series, distinguish the lines in grey print.
    every = max(1, curve.value.size // 8)
    shift = "os^D".index(look.marker) * every // 4
    axes.plot(
        steps,
        curve.value,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        markevery=(min(shift, curve.value.size - 1), every),
        label=name,
    )
