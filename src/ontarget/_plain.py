"""Makes text from data safe to show on a terminal or a page.

Names, reasons and values come from files and streams. Printed as they are, they could clear the
screen, fill the clipboard, turn the reading direction around or forge a line of output.
"""

from __future__ import annotations

import unicodedata


def plain(text: object, most: int = 2_000) -> str:
    r"""The text as one line of visible characters; other characters become Python escapes.

    Escaped are control codes (also those above 127), marks of reading direction, invisible
    characters, line breaks and lone surrogates. Of text longer than ``most`` characters, the middle
    is left out.

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
