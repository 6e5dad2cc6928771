"""For fitting a monitor again: checks its settings, and keeps old episodes in their old parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ontarget._typing import IndexArray
from ontarget.episodes import Episodes, PaperSplit, Schema, Split
from ontarget.episodes.facts import MOST_FINGERPRINTS, fingerprints
from ontarget.errors import Argument, EpisodesError, InputError
from ontarget.fitted.fitted import Fitted


def check_settings(
    own: Mapping[str, Any], default: Mapping[str, Any], kept: Mapping[str, Any]
) -> None:
    """Raise an `InputError` if a setting differs both from its default and from the earlier fit."""
    for name, value in own.items():
        if value != default[name] and value != kept[name]:
            raise InputError(
                Argument("warm"),
                f" takes all settings from the earlier monitor, which has {name}={kept[name]!r}, "
                f"but this monitor has {name}={value!r}; leave the settings out, as in "
                f"GoalMonitor().fit(…, warm=…), or fit without ",
                Argument("warm"),
            )


def warm_split(
    fitted: Fitted, episodes: Episodes, divide: Callable[[Episodes], Split | PaperSplit]
) -> Split | PaperSplit:
    """The episodes divided into learn and assure (held out for promises).

    With the paper's split, the parts are train, calibrate and assure. Old episodes stay in the part
    that they were in at the earlier fit, and ``divide`` divides the new ones. So the monitor never
    learns from an episode that a promise was based on.
    """
    if episodes.schema.names != fitted.schema.names:
        raise EpisodesError(
            f"the episodes need the features of the earlier monitor (warm=), "
            f"({', '.join(fitted.schema.names)}), got ({', '.join(episodes.schema.names)}); read "
            "them with like=monitor"
        )
    if max(fitted.trained.sizes.values()) > MOST_FINGERPRINTS:
        raise InputError(
            Argument("warm"),
            f" needs a monitor that was fitted on at most {MOST_FINGERPRINTS:,} episodes per part, "
            f"because a model file can recognize no more; fit without an earlier monitor, and "
            f"assure only with episodes that no earlier monitor learned from",
        )
    known = Schema(tuple(replace(one, unseen="missing") for one in fitted.schema.features))
    marks = fingerprints(episodes.recoded(known))
    names = list(fitted.trained.sizes)
    places = {
        name: np.flatnonzero(np.isin(marks, fitted.trained.fingerprints_of(name))) for name in names
    }
    new = np.setdiff1d(np.arange(len(episodes)), np.concatenate(list(places.values())))
    if new.size:
        parts = divide(episodes.take(new))._asdict()
        for name in names:
            if parts[name] is not None:
                more = new[np.isin(episodes.ids[new], parts[name].ids)]
                places[name] = np.concatenate([places[name], more])
    kind: Any = Split if "learn" in places else PaperSplit
    found: Split | PaperSplit = kind(
        **{name: _taken(episodes, index) for name, index in places.items()}, rest=None
    )
    return found


def _taken(episodes: Episodes, index: IndexArray) -> Episodes | None:
    return episodes.take(np.sort(index)) if index.size else None
