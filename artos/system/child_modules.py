"""Every module of ours that is started as a process of its own.

Nothing imports them, so a wrong name would only be noticed when its process is started.
"""

from __future__ import annotations

from enum import StrEnum


class ChildModule(StrEnum):
    """What ``python -P -m`` is given."""

    PRELOAD = "artos.runtime.preload"
    REGISTER = "artos.runtime.register"
    TEMPLATE = "artos.runtime.template"
    MEMBER = "artos.runtime.process"
    RUN = "head.run"
    REPLAY = "head.replay"
    EXECUTOR = "workers.executor"
    AGENT = "workers.agent"
    BENCHMARKS = "evaluation.core.registry"


OF_A_WORKER = frozenset(
    {
        ChildModule.EXECUTOR,
        ChildModule.AGENT,
        ChildModule.TEMPLATE,
        ChildModule.MEMBER,
        ChildModule.PRELOAD,
    }
)
"""The modules that a worker daemon, or another process of a worker, starts."""
