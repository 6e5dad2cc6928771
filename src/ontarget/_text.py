"""Text as people read it: numbers, shares, and text from data, made safe to show.

Names, reasons and values come from files and streams. Printed as they are, they could clear the
screen, fill the clipboard, turn the reading direction around or forge a line of output.
"""

from __future__ import annotations

import math
import unicodedata


def plain(text: object, most: int = 2_000) -> str:
    r"""The text as one line of visible characters; other characters become Python escapes.

    Examples
    --------
    >>> print(plain("robot\x1b[2J 7"), plain("left\u202eright"), plain("größe 5 µm"))
    robot\x1b[2J 7 left\u202eright größe 5 µm
    """
    shown = str(text)
    if len(shown) > most:  # in the middle: the end of a message says what is wrong
        shown = f"{shown[: most // 2]}…{shown[-(most // 2) :]}"
    if shown.isprintable():
        return shown
    return "".join(one if _visible(one) else _spelled(one) for one in shown)


def _visible(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def number(value: float) -> str:
    """A number as people write it, with a real minus sign.

    Examples
    --------
    >>> number(-60.0), number(1234567.0), number(0.12345678)
    ('−60', '1,234,567', '0.123457')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return text.replace("-", "−")


def percent(share: float, digits: int = 1, *, fixed: bool = False) -> str:
    r"""A share from 0 to 1 as a percentage; if it is NaN, a dash, or ``?`` with ``fixed``.

    Examples
    --------
    >>> percent(0.794), percent(0.8), percent(0.99996)
    ('79.4\xa0%', '80\xa0%', 'over 99.9\xa0%')
    >>> percent(0.8, fixed=True), percent(math.nan, fixed=True), percent(math.nan)
    ('80.0 %', '?', '–')
    """
    if math.isnan(share):
        return "?" if fixed else "–"
    if fixed:
        return f"{100 * share:.{digits}f} %"
    edge = 10.0**-digits
    if 100.0 - edge / 2 <= 100.0 * share < 100.0:
        return f"over {100 - edge:.{digits}f}\u00a0%"
    if 0.0 < 100.0 * share < edge / 2:
        return f"under {edge:.{digits}f}\u00a0%"
    return f"{round(100 * share, digits):g}\u00a0%"
