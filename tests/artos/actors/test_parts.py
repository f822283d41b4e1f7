"""Parts of an actor that asks: each has what it sees, whatever another one does meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from asking import Asker, Echo

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.protocol.invocations import Invoke

PARTS, ROWS = 2, 2


class Desk:
    """Answers at once."""

    version = -1

    def ask(self, asked: Any) -> None:
        self.answer = Echo().answer(asked, None)

    def take(self) -> Any:
        return self.answer


def test_a_round_ends_with_what_each_part_saw_last(tmp_path: Path) -> None:
    """Also if the environments of all parts write into one array."""
    actor = Asker("one_array_env:make", envs=PARTS, splits=PARTS)
    keys = tuple(actor.data_keys())
    shm = ShmFolder.create(tmp_path.name)
    try:
        spec = BlockSpec(0, keys, 2 * ROWS, PARTS, (), "wait")
        block = ActorBlock.create(shm.path / "block", spec)
        plan: Any = SimpleNamespace(seed=0, actors=1, objects=())
        desks: Any = {"inference": [Desk() for _ in range(PARTS)]}
        actor.setup(ActorContext(plan, 0, 0, block, 0, desks=desks))
        for start in (0, ROWS):
            actor.sample(start, ROWS, Invoke(1, "actors.sample", "sample"))
        seen, after = block.arrays["observations"][..., 0], block.arrays["bootstraps"]
        assert seen.tolist() == [[0, 100], [1, 101], [2, 102], [3, 103]]
        assert after.tolist() == [[0, 0], [2, 102], [0, 0], [4, 104]]
        actor.close()
    finally:
        shm.remove()
