"""Finds out which keywords a function takes, so that a model's ``fit`` gets only those."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def accepted(function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that the function has a parameter for; all of them if it has ``**kwargs``.

    Examples
    --------
    >>> accepted(lambda X, y, *, ids=None: None, {"ids": [1], "steps": [0]})
    {'ids': [1]}
    """
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return dict(keywords)
    by_name = {
        name
        for name, one in parameters.items()
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    }
    return {name: value for name, value in keywords.items() if name in by_name}
