"""Access tokens, which allow clients to report steps, to read, or to administer."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Final

from ontarget.errors import InputError
from ontarget.service.store import Store

SCOPES: Final = ("report", "read", "admin")
_REMEMBERED: Final = 10.0  # seconds that a token may still be taken for after it was revoked


class Tokens:
    """The access tokens of a service: ``ot_<id>_<secret>``, of which only a checksum is stored."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[str, frozenset[str]]] = {}
        self._read_at = float("-inf")

    def create(self, scopes: Iterable[str], *, note: str = "", at: float = 0.0) -> str:
        """Make a new token and return it; it cannot be shown again."""
        wanted = sorted(set(scopes))
        if not wanted or not set(wanted) <= set(SCOPES):
            raise InputError(
                f"`scopes` needs one or more of {', '.join(SCOPES)}, got {', '.join(wanted)}"
            )
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._store.database.write() as writing:
            writing.run(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?)",
                (number, _digest(secret), " ".join(wanted), note, at),
            )
        self._read_at = float("-inf")
        return f"ot_{number}_{secret}"

    def revoke(self, number: str) -> bool:
        """Delete the token with this id; return whether it existed."""
        with self._store.database.write() as writing:
            found = writing.run("DELETE FROM tokens WHERE id = ?", (number,))
        self._read_at = float("-inf")
        return found == 1

    def scopes_of(self, token: str) -> frozenset[str]:
        """What a token allows (its scopes); empty if the token is unknown."""
        kind, _, rest = token.partition("_")
        number, _, secret = rest.partition("_")
        stored, scopes = self._all().get(number, ("", frozenset[str]()))
        # Compared even if there is no such token, so that time tells nothing.
        same = hmac.compare_digest(_digest(secret), stored or _digest(""))
        if not (same and stored and kind == "ot"):
            return frozenset()
        return frozenset(SCOPES) if "admin" in scopes else scopes

    def any(self) -> bool:
        """Whether the service has any token."""
        return bool(self._all())

    @property
    def fresh(self) -> bool:
        """Whether the tokens in memory are recent enough to use without reading the database."""
        return self._clock() - self._read_at <= _REMEMBERED

    def refresh(self) -> None:
        """Read the tokens from the database."""
        now = self._clock()
        with self._store.database.read() as at:
            rows = at.rows("SELECT id, hash, scopes FROM tokens")
        self._known = {row[0]: (row[1], frozenset(row[2].split())) for row in rows}
        self._read_at = now

    def _all(self) -> dict[str, tuple[str, frozenset[str]]]:
        if not self.fresh:
            self.refresh()
        return self._known


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
