"""All errors and warnings that ontarget raises; every error is an `OntargetError`.

Each error is also of the built-in kind that a caller would expect, so ``except ValueError`` keeps
working. If a message names an argument of a function, it holds the name as an `Argument`. The
command line then shows its option of that name instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType

from ontarget._text import plain

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
    "HorizonWarning",
    "InputError",
    "MissingExtraError",
    "ModelFileError",
    "OntargetError",
    "Placeholder",
    "ServiceError",
    "StoreError",
    "TargetError",
    "UnfittedError",
]


class Placeholder(str):
    """A word in place of a value that the user chooses, such as NAME, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that a message names, with the value to pass if the message suggests one.

    Examples
    --------
    >>> print(Argument("horizon"), Argument("censored", "drop"), sep=", ")
    `horizon`, censored='drop'
    >>> print(Argument("reward", Placeholder("NAME")))
    reward=NAME
    """

    name: str
    value: object = ...

    def __str__(self) -> str:
        if isinstance(self.value, EllipsisType):
            return f"`{self.name}`"
        return f"{self.name}={self.value!r}"


class OntargetError(Exception):
    """The base class of every error that ontarget raises on purpose.

    The message is one line of visible characters, so text that it quotes from data cannot control a
    terminal or add a line to a log.

    Parameters
    ----------
    parts
        The pieces of the message: texts, and an `Argument` wherever it names an argument.

    Examples
    --------
    >>> error = InputError("pass ", Argument("alarm_below"), " alone")
    >>> str(error)
    'pass `alarm_below` alone'
    >>> error.argument
    'alarm_below'
    >>> error.told(lambda argument: f"--{argument.name}")
    'pass --alarm_below alone'
    """

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__(plain("".join(map(str, parts))))
        self.parts = parts

    @property
    def argument(self) -> str | None:
        """The name of the argument at fault, the first that the message names; None if none is."""
        return next((part.name for part in self.parts if isinstance(part, Argument)), None)

    def told(self, spell: Callable[[Argument], str]) -> str:
        """The message, with each argument's name replaced by what ``spell`` returns for it."""
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
    """A category that does not occur in the episodes' list of categories."""


class EpisodesFileError(EpisodesError, OSError):
    """A file of episodes that cannot be read or written."""


class InputError(OntargetError, ValueError):
    """An argument has a wrong type, shape or range, or contains a NaN or an infinity."""


class UnfittedError(OntargetError, ValueError, AttributeError):
    """A model or monitor was used before it was fitted or calibrated."""


class CalibrationError(OntargetError, ValueError):
    """Calibration or assure episodes (those behind promises) cannot be used for what was asked."""


class FewEpisodesError(CalibrationError):
    """Too few episodes to guarantee what was asked for, such as a false-alarm rate."""


class GroupError(OntargetError, ValueError):
    """A group that was not calibrated, or has too few episodes to calibrate."""


class ModelFileError(OntargetError, OSError):
    """A model file that is damaged, truncated or of another format."""


class MissingExtraError(OntargetError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class GameError(OntargetError, RuntimeError):
    """StarCraft II could not be started, refused a request, or ended early."""


class StoreError(OntargetError, OSError):
    """The service's database cannot be opened, read or written."""


class ServiceError(OntargetError, RuntimeError):
    """The service refused a request, or could not be reached."""


class AlarmWarning(UserWarning):
    """An alarm that the recorded episodes cannot support.

    It would have stayed silent on all of them, or all of them met its target, or all missed it, so
    that p has nothing to learn from.
    """


class HorizonWarning(UserWarning):
    """An environment whose time limit is missing, or differs from the monitor's horizon."""


class EpisodesWarning(UserWarning):
    """Episodes that need a second look.

    A file cannot store something, so that you must pass it again when you read the file; or a few
    outcomes dwarf all others.
    """
