"""A few lines about some episodes, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ontarget.episodes.episodes import Episodes

__all__ = ["describe"]


def describe(episodes: Episodes) -> str:
    """How many episodes, how long, of what, and what they came to."""
    lengths, outcomes = episodes.lengths, episodes.outcomes
    steps = f"{int(lengths.sum()):,} steps in all"
    if lengths.min() == lengths.max():
        length = f"each of {lengths.max()} steps"
    else:
        length = f"{lengths.min()} to {lengths.max()} steps long (median {int(np.median(lengths))})"
    low, mid, high = np.quantile(outcomes, [0.1, 0.5, 0.9])
    lines = [
        f"episodes   {len(episodes):,}, {length}, {steps}; horizon {episodes.horizon}",
        f"features   {_features(episodes)}",
        f"behavior   {episodes.behavior.spec}",
        f"outcomes   mean {outcomes.mean():.4g}, sd {outcomes.std():.4g}; "
        f"10 % below {low:.4g}, half below {mid:.4g}, 90 % below {high:.4g}",
        f"ends       {_ends(episodes)}",
    ]
    if episodes.groups is not None:
        names, counts = np.unique(episodes.groups, return_counts=True)
        shown = ", ".join(f"{g} ({c:,})" for g, c in zip(names[:6], counts[:6], strict=True))
        lines.append(f"groups     {shown}{' …' if names.size > 6 else ''}")
    return "\n".join(lines)


def _features(episodes: Episodes) -> str:
    shown = [
        f"{feature.name} ({len(feature.categories)} categories)"
        if feature.categories is not None
        else f"{feature.name}{' (categorical)' if feature.categorical else ''}"
        for feature in episodes.schema.features[:12]
    ]
    more = len(episodes.schema) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def _ends(episodes: Episodes) -> str:
    early = int(np.count_nonzero(episodes.lengths < episodes.horizon))
    if not early:
        text = "all reached the horizon"
    elif episodes.truncated is None and episodes.terminated is None:
        text = f"{early:,} ended early, all taken as terminations: no column flags a cut-off"
    else:
        text = f"{early:,} terminated early"
    if episodes.dropped:
        text += f"; {episodes.dropped:,} cut-off episodes left out, their outcome unknown"
    return text
