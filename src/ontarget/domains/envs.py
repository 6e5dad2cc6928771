"""Registers two Gymnasium environments when it is imported.

They are ``ontarget/Tamarisk-v0`` and ``ontarget/Skirmish-v0``. Gymnasium has no plugin entry
points, so this is the one module whose import has an effect. Gymnasium imports this module by
itself when it is part of the name:
``gymnasium.make("ontarget.domains.envs:ontarget/Tamarisk-v0")``.
"""

from __future__ import annotations

from typing import Final

from ontarget._extras import require

# Environment -> where its class is; nothing is imported before the environment is made.
ENVIRONMENTS: Final = {
    "ontarget/Tamarisk-v0": "ontarget.domains.tamarisk._env:TamariskEnv",
    "ontarget/Skirmish-v0": "ontarget.domains.skirmish._env:SkirmishEnv",
}

_registration = require("gymnasium.envs.registration", extra="gym")
for _name, _entry_point in ENVIRONMENTS.items():
    _registration.register(id=_name, entry_point=_entry_point)
