"""Everything ontarget raises on purpose: one tree under `OntargetError`.

Each error is also the builtin kind a caller would expect, so ``except ValueError`` keeps working.
A message that names an argument holds it as an `Argument`, which the command line spells as the
option of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType

from ontarget._plain import plain

__all__ = [
    "AlarmWarning",
    "Argument",
    "CalibrationError",
    "CategoryError",
    "CensoredError",
    "EpisodesError",
    "EpisodesFileError",
    "EpisodesWarning",
    "FewEpisodesError",
    "GameError",
    "GroupError",
    "InputError",
    "MissingExtraError",
    "ModelFileError",
    "OntargetError",
    "Placeholder",
    "TargetError",
    "UnfittedError",
]


class Placeholder(str):
    """A word that stands for a value of the user's, such as NAME: spelled without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that a message names, with the value to give it where there is one to tell.

    Examples
    --------
    >>> print(Argument("horizon"), Argument("censored", "drop"), sep=", ")
    horizon, censored='drop'
    >>> print(Argument("reward", Placeholder("NAME")))
    reward=NAME
    """

    name: str
    value: object = ...

    def __str__(self) -> str:
        return self.name if isinstance(self.value, EllipsisType) else f"{self.name}={self.value!r}"


class OntargetError(Exception):
    """The root of every error that ontarget raises on purpose.

    Its message is one line of visible characters: what it quotes from data cannot act on a
    terminal or forge a line of a log.

    Parameters
    ----------
    parts
        The message, in one text or in several with the arguments it names between them.

    Examples
    --------
    >>> error = InputError("pass ", Argument("alarm_below"), " alone")
    >>> str(error)
    'pass alarm_below alone'
    >>> error.told(lambda argument: f"--{argument.name}")
    'pass --alarm_below alone'
    """

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__(plain("".join(map(str, parts))))
        self.parts = parts

    def told(self, spell: Callable[[Argument], str]) -> str:
        """The message with its arguments spelled by a function."""
        return plain("".join(part if isinstance(part, str) else spell(part) for part in self.parts))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.parts, self.__dict__


class TargetError(OntargetError, ValueError):
    """A target that is not a valid set of outcomes."""


class EpisodesError(OntargetError, ValueError):
    """Recorded episodes that cannot be used as they are."""


class CensoredError(EpisodesError):
    """Episodes that were cut off before their end, so that their outcome is unknown."""


class CategoryError(EpisodesError):
    """A category that the episodes' dictionary does not hold."""


class EpisodesFileError(EpisodesError, OSError):
    """A file of episodes that cannot be read or written."""


class InputError(OntargetError, ValueError):
    """An argument that breaks its rule: shape, range, NaN or infinity."""


class UnfittedError(OntargetError, ValueError, AttributeError):
    """A model or a calibrated object was asked before it was fitted or calibrated."""


class CalibrationError(OntargetError, ValueError):
    """Calibration data that cannot support what was asked of it."""


class FewEpisodesError(CalibrationError):
    """Too few episodes for what was asked to be promised."""


class GroupError(OntargetError, ValueError):
    """A group that was never calibrated, or is too small to be."""


class ModelFileError(OntargetError, OSError):
    """A model file that is damaged, truncated or of another format."""


class MissingExtraError(OntargetError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class GameError(OntargetError, RuntimeError):
    """StarCraft II could not be started, refused a request, ended early or went away."""


class AlarmWarning(UserWarning):
    """An alarm rule that would have stayed silent on every recorded episode."""


class EpisodesWarning(UserWarning):
    """Something that a file of episodes cannot hold, and that its reader has to be told again."""
