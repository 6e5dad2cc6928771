"""The content security policy of a page: a browser may show it, and nothing else."""

from __future__ import annotations

from typing import Final

__all__ = ["CONTENT_POLICY", "policy_tag"]

# No scripts, frames, forms, fonts or requests: styles and pictures are part of the page.
CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def policy_tag() -> str:
    """The policy as the tag that a page's head begins with, before anything it could apply to."""
    return f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}" />'
