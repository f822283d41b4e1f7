"""Trigger primitives bound to the buffer, and the engine that checks them (paper §4.2, Table 3).

Each name is imported when it is first used, so a module of this folder loads what it needs only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triggers.base import Trigger
    from triggers.counting import CountTrigger
    from triggers.data_key import DataKeyTrigger
    from triggers.events import Firing
    from triggers.first import First, Once
    from triggers.pairs import And, Or
    from triggers.prewarm import PrewarmTrigger
    from triggers.primitives import ObjectKeyTrigger, TimeTrigger, TransferTrigger
    from triggers.replay import ReplayTrigger, RoundTrigger
    from triggers.requests import RequestTrigger
    from triggers.setting import SetTrigger
    from triggers.updates import UpdateTrigger
    from triggers.values import ValueTrigger

__all__ = [
    "And",
    "CountTrigger",
    "DataKeyTrigger",
    "Firing",
    "First",
    "ObjectKeyTrigger",
    "Once",
    "Or",
    "PrewarmTrigger",
    "ReplayTrigger",
    "RequestTrigger",
    "RoundTrigger",
    "SetTrigger",
    "TimeTrigger",
    "TransferTrigger",
    "Trigger",
    "UpdateTrigger",
    "ValueTrigger",
]

_MODULES = {
    "And": "triggers.pairs",
    "CountTrigger": "triggers.counting",
    "DataKeyTrigger": "triggers.data_key",
    "Firing": "triggers.events",
    "First": "triggers.first",
    "ObjectKeyTrigger": "triggers.primitives",
    "Once": "triggers.first",
    "Or": "triggers.pairs",
    "PrewarmTrigger": "triggers.prewarm",
    "ReplayTrigger": "triggers.replay",
    "RequestTrigger": "triggers.requests",
    "RoundTrigger": "triggers.replay",
    "SetTrigger": "triggers.setting",
    "TimeTrigger": "triggers.primitives",
    "TransferTrigger": "triggers.primitives",
    "Trigger": "triggers.base",
    "UpdateTrigger": "triggers.updates",
    "ValueTrigger": "triggers.values",
}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module it lives in, once."""
        if name not in _MODULES:
            raise AttributeError(f"module 'triggers' has no attribute {name!r}")
        found = getattr(import_module(_MODULES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
