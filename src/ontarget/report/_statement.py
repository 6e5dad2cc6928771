"""A finding of a report, and how its sentences are put together."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Statement", "no_tick", "sentence", "sentences"]


class Statement(NamedTuple):
    """A finding in one sentence, what it rests on, and whether it is good; None is neither.

    ``why`` is a sentence that says why it is neither.
    """

    headline: str
    detail: str
    good: bool | None
    why: str = ""


def no_tick(because: str) -> str:
    """Why something that looks good gets no tick, as a sentence; empty without a reason."""
    return f"No tick: {because}." if because else ""


def sentence(text: str) -> str:
    """The text with a capital letter in front; p stays small, for P would be another thing."""
    return text if text.startswith("p ") else text[:1].upper() + text[1:]


def sentences(*texts: str) -> str:
    """The texts as sentences, one after the other; empty ones are left out."""
    return " ".join(f"{sentence(one)}." for one in texts if one)
