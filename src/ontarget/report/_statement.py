"""One finding of a report, and functions that put its sentences together."""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    """A finding of a report in one sentence, details about it, and its mark.

    The mark ``good`` is True, False, or None for neither; ``why`` is then a sentence that says why.
    """

    headline: str
    detail: str
    good: bool | None
    why: str = ""


def no_tick(because: str) -> str:
    """A sentence that says why a good finding gets no tick; empty without a reason."""
    return f"No tick: {because}." if because else ""


def sentence(text: str) -> str:
    """The text with a capital letter in front.

    A text that begins with p stays as it is, because P would mean something else.
    """
    return text if text.startswith("p ") else text[:1].upper() + text[1:]


def sentences(*texts: str) -> str:
    """The texts as sentences, one after the other; empty texts are left out."""
    return " ".join(f"{sentence(one)}." for one in texts if one)
