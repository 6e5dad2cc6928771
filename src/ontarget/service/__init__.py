"""A service that many agents report to: it stores every run and delivers alarms."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.service.contracts import ContractSpec, HeldContracts, read_contracts
    from ontarget.service.engine import Engine
    from ontarget.service.health import Health
    from ontarget.service.messages import Answer, EndMessage, Problem, StepMessage, run_id
    from ontarget.service.service import Limits, Service
    from ontarget.service.store import Store, open_store
    from ontarget.service.testing import StoreContract
    from ontarget.service.tokens import Tokens
    from ontarget.service.web.api import create_app
    from ontarget.service.web.server import serve_on
    from ontarget.service.webhooks import Hook, read_hooks, signature

__all__ = [
    "Answer",
    "ContractSpec",
    "EndMessage",
    "Engine",
    "Health",
    "HeldContracts",
    "Hook",
    "Limits",
    "Problem",
    "Service",
    "StepMessage",
    "Store",
    "StoreContract",
    "Tokens",
    "create_app",
    "open_store",
    "read_contracts",
    "read_hooks",
    "run_id",
    "serve_on",
    "signature",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Answer": "ontarget.service.messages",
        "ContractSpec": "ontarget.service.contracts",
        "EndMessage": "ontarget.service.messages",
        "Engine": "ontarget.service.engine",
        "Health": "ontarget.service.health",
        "HeldContracts": "ontarget.service.contracts",
        "Hook": "ontarget.service.webhooks",
        "Limits": "ontarget.service.service",
        "Problem": "ontarget.service.messages",
        "Service": "ontarget.service.service",
        "StepMessage": "ontarget.service.messages",
        "Store": "ontarget.service.store",
        "StoreContract": "ontarget.service.testing",
        "Tokens": "ontarget.service.tokens",
        "create_app": "ontarget.service.web.api",
        "open_store": "ontarget.service.store",
        "read_contracts": "ontarget.service.contracts",
        "read_hooks": "ontarget.service.webhooks",
        "run_id": "ontarget.service.messages",
        "serve_on": "ontarget.service.web.server",
        "signature": "ontarget.service.webhooks",
    },
)
