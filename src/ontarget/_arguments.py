"""Checks of single arguments, each with the message a user needs."""

from __future__ import annotations

from numbers import Integral

from ontarget.errors import InputError

__all__ = ["whole_number"]


def whole_number(name: str, value: object, *, least: int) -> int:
    """The value as an int, if it is a whole number of at least this.

    Examples
    --------
    >>> whole_number("window", 3, least=0)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} needs a whole number from {least} up, got {value!r}")
    return int(value)
