"""The messages of agents and the answers to them, as types that read and write JSON."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Value: TypeAlias = float | str | bool | None
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]


class EndMessage(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    frozen=True,
    kw_only=True,
    gc=False,
):
    """The request that ends a run: the last reward, and whether the run was cut off."""

    step: Number
    reward: float | None = 0.0
    behavior: float | None = None
    signals: dict[Name, Value] = {}
    intervened: bool = False
    truncated: bool = False
    at: Moment | None = None


class StepMessage(EndMessage, frozen=True, kw_only=True):
    """One step of a run, as an agent reports it before it acts.

    The agent, the run and the step identify the message, so the same message may be sent again.
    """

    agent: Name
    run: Name
    state: dict[str, Value] | list[float | None] | None = None
    group: Value = None
    contract: Name | None = None
    target: Name | None = None
    end: bool = False

    @property
    def is_last(self) -> bool:
        """Whether this is the last message of its run."""
        return self.end or self.truncated


class Answer(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The answer to one step: the fields of `Outlook` (p, bounds, status and so on) and more."""

    agent: str
    run: str
    id: str
    contract: str
    step: int
    p: float | None
    spread: tuple[float, float] | None
    low: float | None
    high: float | None
    plausibility: float | None
    assurance: float | None
    n: int
    so_far: float | None
    threshold: float | None
    status: str
    at: str
    reason: str = ""
    alarm: str = ""
    end: bool = False
    duplicate: bool = False
    parts: dict[str, float | None] = {}  # p of each behavior by itself, of a goal over several
    unseen: dict[str, str] = {}  # categories that count as missing, for no recorded run had them


class Problem(msgspec.Struct, omit_defaults=True, frozen=True):
    """What is wrong with a request, in the standard form for HTTP errors (RFC 9457)."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"
    expected: int | None = None  # the step that a run waits for
    agent: str = ""
    run: str = ""
    step: int | None = None


_payloads: Final = msgspec.msgpack.Encoder(order="deterministic")  # names of features in order


def payload_of(message: StepMessage) -> bytes:
    """A message as bytes for the database; equal messages give equal bytes."""
    return _payloads.encode(message)


def read_payload(payload: bytes) -> dict[str, Any]:
    """The fields of a message, from the bytes in the database."""
    found: dict[str, Any] = msgspec.msgpack.decode(payload)
    return found


@lru_cache(maxsize=100_000)  # asked at every step
def run_id(agent: str, run: str) -> str:
    """The id of a run in URLs: 24 hexadecimal digits, computed from its agent and name.

    Examples
    --------
    >>> run_id("cart-7", "monday")
    '8c108f72ba04434f0e6c85b3'
    """
    # The length of the agent's name keeps ("a", "bc") and ("ab", "c") apart.
    return hashlib.blake2b(f"{len(agent)}:{agent}{run}".encode(), digest_size=12).hexdigest()
