"""`Caution`: something in the data that would make a monitor look better than it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ontarget._plain import plain
from ontarget.errors import Argument

CautionKind: TypeAlias = Literal[
    "outcome",
    "length",
    "reward",
    "total",
    "last row",
    "together",
    "wait",
    "since last",
    "order",
    "id",
    "outliers",
    "rounding",
]


@dataclass(frozen=True)
class Caution:
    """Something that you should look into before a fit.

    Attributes
    ----------
    kind
        What the columns seem to reveal too early: the ``outcome``, the ``length`` of a run, the
        ``reward`` of the same row, a ``total`` that includes that reward, the outcome in the ``last
        row`` only, the outcome by several columns ``together``, or the ``wait`` until the next row
        of the log. ``order`` and ``id`` mean that the order of the file or the ids reveal results.
        ``since last`` means that the reward seems to be what was earned since the previous row.
        ``outliers`` are outcomes that dwarf the others, and ``rounding`` means that the target
        cannot be judged because of them.
    columns
        The columns that the caution is about.
    what, why
        ``what`` says what was found and where, ``why`` says why it matters; a sentence each.
    remedy
        What to do about it, as pieces of a sentence: texts, and an `Argument` in place of the name
        of an option.
    """

    kind: CautionKind
    columns: tuple[str, ...]
    what: str
    why: str
    remedy: tuple[str | Argument, ...]

    def told(self, spell: Callable[[Argument], str] = str) -> str:
        """The caution in one line.

        ``spell`` returns the text for an option, such as ``drop=[...]`` or ``--drop``.
        """
        remedy = "".join(part if isinstance(part, str) else spell(part) for part in self.remedy)
        return plain(f"{self.what}. {self.why}. {remedy}")

    def __str__(self) -> str:
        return self.told()
