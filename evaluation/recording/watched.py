"""Built-in algorithms whose learner says how long it took to record what a replay needs.

``artos run evaluation/recording/watched.py:ppo``: the learner's process leaves ``learner-0.json``
beside its tape, with the ``seconds`` spent in all, and those from its first invocation to its end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from artos.runtime.taping import Recorder
from triggers.algorithms.dqn import workload as dqn
from triggers.algorithms.impala import workload as impala
from triggers.algorithms.ppo import workload as ppo
from triggers.algorithms.sac import workload as sac

__all__ = ["dqn", "impala", "ppo", "sac"]
_HOOKS = ("begins", "goes_on", "called", "looked", "publishes", "published", "close")
_spent, _began = [0.0], list[float]()


def _timed(hook: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(hook)
    def timed(recorder: Recorder, *arguments: Any) -> Any:
        began = time.perf_counter()
        if hook.__name__ == "called":
            _began.append(began)
        found = hook(recorder, *arguments)
        now = time.perf_counter()
        _spent[0] += now - began
        if hook.__name__ == "close" and _began and recorder._file is not None:
            told = {"seconds": _spent[0], "wall": now - _began[0]}
            recorder._file.path.with_suffix(".json").write_text(json.dumps(told))
        return found

    return timed


for _name in _HOOKS:
    setattr(Recorder, _name, _timed(getattr(Recorder, _name)))
