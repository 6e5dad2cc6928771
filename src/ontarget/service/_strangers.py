"""Counts the readings of unknown categories in the runs of a contract, in little memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ontarget.episodes.schema import UnknownCategories

_MOST: Final = 64  # categories of a feature that are counted by name


class Strangers:
    """The readings of categories that no recorded run had, since the service began.

    However many different values agents send, only some of them are kept: a new one takes the place
    of the rarest, so the frequent ones stay.
    """

    def __init__(self) -> None:
        self._readings: dict[str, int] = {}
        self._values: dict[str, dict[str, int]] = {}

    def add(self, unseen: Mapping[str, str]) -> None:
        """Count the unknown categories of one state, by feature."""
        for feature, value in unseen.items():
            self._readings[feature] = self._readings.get(feature, 0) + 1
            own = self._values.setdefault(feature, {})
            if value not in own and len(own) >= _MOST:
                del own[min(own, key=own.__getitem__)]
            own[value] = own.get(value, 0) + 1

    @property
    def found(self) -> list[UnknownCategories]:
        """The readings by feature, with the most frequent categories."""
        return [
            UnknownCategories.of(feature, dict(self._values[feature]).items())._replace(readings=n)
            for feature, n in list(self._readings.items())
        ]
