"""Checks of single arguments; each raises an error that says what is wrong."""

from __future__ import annotations

import errno
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from ontarget.errors import Argument, InputError, OntargetError


def whole_number(
    name: str,
    value: object,
    *,
    least: int,
    most: int | None = None,
    error: type[OntargetError] = InputError,
) -> int:
    """The value as an int; an error unless it is a whole number from `least` to `most`."""
    # A float is an error too, even 3.0, because it is usually a mistake.
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):  # type: ignore[call-overload]
        upto = "up" if most is None else f"to {most}"
        rule = f" needs a whole number from {least} {upto}, got {value!r}"
        raise error(Argument(name), rule)
    return int(value)  # type: ignore[call-overload,no-any-return]


def fraction(name: str, value: object) -> float:
    """The value as a float; an `InputError` unless it lies strictly between 0 and 1."""
    if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
        raise InputError(Argument(name), f" needs a number strictly between 0 and 1, got {value!r}")
    return float(value)


def share(name: str, value: object) -> float:
    """The value as a float; an `InputError` unless it is above 0 and at most 1."""
    if isinstance(value, bool) or not (isinstance(value, Real) and 0.0 < float(value) <= 1.0):
        raise InputError(Argument(name), f" needs a share above 0, at most 1, got {value!r}")
    return float(value)


def seed_parts(seed: Any) -> tuple[int, ...]:
    """The seed, which is one whole number from 0 up or several, as a tuple."""
    parts = (seed,) if isinstance(seed, Integral) else tuple(seed)
    if not parts:
        raise InputError(
            Argument("seed"), " needs one whole number or several, got an empty sequence"
        )
    return tuple(whole_number("seed", part, least=0) for part in parts)


def usable_path(path: str | PathLike[str], *, error: type[OntargetError] = InputError) -> Path:
    """The path as a `Path`; an error if the system allows no file of this name."""
    found = Path(path)
    try:
        found.stat()
    except ValueError as wrong:  # a null byte, or characters that the system cannot write
        raise error(f"{path}: no file can have this name ({wrong}); choose another") from wrong
    except OSError as wrong:
        if wrong.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            reason = str(wrong.strerror).lower()
            raise error(f"{path}: no file can be there ({reason}); choose another path") from wrong
    return found
