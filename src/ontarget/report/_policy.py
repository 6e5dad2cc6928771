"""The content security policy of a page: a browser may show the page, but run or load nothing."""

from __future__ import annotations

from typing import Final

__all__ = ["CONTENT_POLICY", "policy_tag"]

# No scripts, frames, forms, fonts or requests: styles and pictures are part of the page.
CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def policy_tag() -> str:
    """The content security policy as an HTML tag.

    It is the first tag in a page's head, so that it applies to everything after it.
    """
    return f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}" />'
