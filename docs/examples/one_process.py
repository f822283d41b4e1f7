"""ARTOS in one process: two actors and a learner find the best of four arms of a bandit."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from artos import ActorBlock, DataKey, Invoke, ModelBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.model_block import ObjectSpec
from artos.protocol.invocations import Done
from artos.specs.keys import VERSION_KEY, ArraySpec
from artos.specs.members import Member
from head.run.coordination.concern import Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.outline import Outline
from head.run.coordination.stand_ins import in_process
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger

ACTORS, STEPS, UPDATES, LEARNER = range(2), 64, 40, Member("learner")
KEYS = (DataKey("arms", (), "int64"), DataKey("rewards"))
UPDATE, SAMPLE = "learner.update", "actors.sample"
TABLE = {
    UPDATE: DataKeyTrigger(("arms", "rewards"), n=2, size=STEPS),
    SAMPLE: ObjectKeyTrigger("model_param"),
}


def sample(block: ActorBlock, call: Invoke) -> Done:
    """What an actor does: bind the newest weights, write a round of rows, commit it."""
    slot, start = weights.pin(block.spec.actor), block.index(block.allocate(STEPS))
    odds, rows = np.exp(slot.arrays["logits"]), slice(start, start + STEPS)
    block.arrays["arms"][rows, 0] = arms = rng.choice(4, STEPS, p=odds / odds.sum())
    block.arrays["rewards"][rows, 0] = arms == 2
    block.arrays[VERSION_KEY][rows] = slot.version
    block.commit(call.stop)
    return Done(call.firing, slot.version)


def update(call: Invoke) -> Done:
    """What the learner does: read the rows that it was handed, publish new weights."""
    views = [[blocks[c.actor].views(k.name, c.start, c.stop)[0] for c in call.claims] for k in KEYS]
    arms, rewards = (np.concatenate(each)[:, 0] for each in views)
    gradient = np.eye(4)[arms] - np.exp(logits) / np.exp(logits).sum()  # of log p(arm)
    logits[:] += 4 * ((rewards - rewards.mean())[:, None] * gradient).mean(axis=0)
    weights.publish({"logits": logits}, call.firing)
    print(f"version {weights.version}: reward {rewards.mean():.2f}")
    return Done(call.firing, weights.version)


class Bandit(Concern[Coordinator]):
    """Turns firings into invocations, and gives rows back that the learner is done with."""

    def fire(self, firing: Firing) -> None:
        """Invoke the learner, or grant each actor a round."""
        if firing.trigger == UPDATE:
            self.run.invoke(LEARNER, Invoke(firing.number, UPDATE, "update", firing.claims))
        for actor in ACTORS if firing.trigger == SAMPLE and firing.version < UPDATES else ():
            stop = self.run.rounds.grant(actor)
            call = Invoke(firing.number, SAMPLE, "sample", stop=stop)
            self.run.invoke(Member("actors", actor), call)

    def answered(self, member: Member, call: Invoke, done: Done) -> dict[str, Any]:
        """Release rows; the journal need not know more."""
        for rows in call.claims:
            blocks[rows.actor].acknowledge(UPDATE, rows.stop, rows.stop)
        return {}


with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    spec = ObjectSpec.sized("model_param", [ArraySpec("logits", (4,))], readers=len(ACTORS))
    weights = ModelBlock.create(Path(folder, "model"), [spec])["model_param"]
    consumers, blocks = (Consumer(UPDATE, ("arms", "rewards")),), {}
    for actor in ACTORS:
        layout = BlockSpec(actor, KEYS, capacity=2 * STEPS, consumers=consumers)
        blocks[actor] = ActorBlock.create(Path(folder, f"actor-{actor}"), layout)
    logits, rng, calls = np.zeros(4, np.float32), np.random.default_rng(1), []
    run = Coordinator(Outline(STEPS), in_process(blocks, weights, lambda *call: calls.append(call)))
    run.wire(TABLE, {"learner": (bandit := Bandit(run)).fire, "actors": bandit.fire}, [bandit])
    run.actors = ACTORS
    run.begin()
    weights.publish({"logits": logits})
    run.look(LEARNER)
    while calls:
        member, call = calls.pop(0)
        done = update(call) if member == LEARNER else sample(blocks[member.rank], call)
        run.receive(member, done)
