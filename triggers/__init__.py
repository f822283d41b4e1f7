"""Trigger primitives bound to the buffer, and the engine that checks them (paper §4.2, Table 3)."""

from triggers.base import And, Or, Trigger
from triggers.events import Firing
from triggers.prewarm import PrewarmTrigger
from triggers.primitives import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.replay import ReplayTrigger, RoundTrigger
from triggers.updates import UpdateTrigger

__all__ = [
    "And",
    "DataKeyTrigger",
    "Firing",
    "ObjectKeyTrigger",
    "Or",
    "PrewarmTrigger",
    "ReplayTrigger",
    "RoundTrigger",
    "TimeTrigger",
    "TransferTrigger",
    "Trigger",
    "UpdateTrigger",
]
