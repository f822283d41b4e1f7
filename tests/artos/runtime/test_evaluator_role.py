"""What the evaluator tells of its progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trigger_helpers import new_plan

from artos.protocol.invocations import Invoke
from artos.runtime.evaluating import EvaluatorRole


class Playing(EvaluatorRole):
    """Both environments are done at once, as often as there are episodes to be played."""

    def _played(self, wanted: Any, note: Any) -> Any:
        for _ in range(3):
            note(2, 8)
        return SimpleNamespace(returns=(1.0, 1.0), lengths=(4, 4))


def test_each_evaluation_tells_of_its_first_episodes() -> None:
    told: list[int] = []
    actor: Any = SimpleNamespace(spec=SimpleNamespace(name="toy"), build_module=lambda seed: None)
    handed: Any = SimpleNamespace(version=0)
    role = Playing(actor, new_plan({}), handed, lambda: told.append(call.firing))
    for call in (Invoke(1, "evaluator.play", "play"), Invoke(2, "evaluator.play", "play")):
        role.run(call)
    assert told == [1, 2]
