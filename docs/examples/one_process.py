"""ARTOS in one process: two actors and a learner find the best of four arms of a bandit."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from artos import ActorBlock, DataKey, Invoke, ModelBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.model_block import ObjectSpec
from artos.protocol.invocations import Done
from artos.specs.keys import VERSION_KEY, ArraySpec
from artos.specs.members import Member
from head.run.coordination.concern import Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.stand_ins import InProcess, in_one_process
from triggers import DataKeyTrigger, ObjectKeyTrigger

ACTORS, STEPS, UPDATES, ARMS, BEST = 2, 64, 40, 4, 2
KEYS = (DataKey("arms", (), "int64"), DataKey("rewards"))
TABLE = {
    "learner.update": DataKeyTrigger(("arms", "rewards"), n=ACTORS, size=STEPS),
    "actors.sample": ObjectKeyTrigger("model_param"),
}


def sample(block: ActorBlock, call: Invoke) -> Done:
    """What an actor does: bind the newest weights, write a round of rows, commit it."""
    slot = weights.pin(block.spec.actor)
    odds = np.exp(slot.arrays["logits"])
    for step in range(block.allocate(STEPS), call.stop):
        row, arm = block.index(step), rng.choice(ARMS, p=odds / odds.sum())
        block.arrays["arms"][row], block.arrays["rewards"][row] = arm, arm == BEST
        block.arrays[VERSION_KEY][row] = slot.version
    block.commit(call.stop)
    return Done(call.firing, slot.version)


def update(call: Invoke) -> Done:
    """What the learner does: read the rows that it was handed, publish new weights."""
    views = [[blocks[c.actor].views(k.name, c.start, c.stop)[0] for c in call.claims] for k in KEYS]
    arms, rewards = (np.concatenate(each)[:, 0] for each in views)
    gradient = np.eye(ARMS)[arms] - np.exp(logits) / np.exp(logits).sum()  # of log p(arm)
    logits[:] += 4 * ((rewards - rewards.mean())[:, None] * gradient).mean(axis=0)
    weights.publish({"logits": logits}, call.firing)
    print(f"version {weights.version}: reward {rewards.mean():.2f}")
    return Done(call.firing, weights.version)


class Budget(Concern[Coordinator]):
    """Ends the run after so many updates."""

    def invoked(self, member: Member, call: Invoke) -> None:
        """See whether that was the last one: then no more rounds are granted."""
        if self.run.progress.begun() >= UPDATES:
            self.run.ending.end("updates", updates=True)


with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    spec = ObjectSpec.sized("model_param", [ArraySpec("logits", (ARMS,))], readers=ACTORS)
    weights = ModelBlock.create(Path(folder, "model"), [spec])["model_param"]
    consumers, blocks = (Consumer("learner.update", ("arms", "rewards")),), {}
    for actor in range(ACTORS):
        layout = BlockSpec(actor, KEYS, capacity=2 * STEPS, consumers=consumers)
        blocks[actor] = ActorBlock.create(Path(folder, f"actor-{actor}"), layout)
    logits, rng = np.zeros(ARMS, np.float32), np.random.default_rng(1)
    weights.publish({"logits": logits})
    members = {Member("actors", actor): partial(sample, blocks[actor]) for actor in blocks}
    process = InProcess({Member("learner"): update, **members})
    process.run(in_one_process(TABLE, blocks, weights, process, STEPS, [Budget]))
