"""What the verifier says, word for word: a message that helps is part of what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_verifier import SHIPPED, rows, table
from trigger_helpers import KEYS, new_plan

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import DataKey
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.table import Table
from triggers.verify import non_publishing
from triggers.verify.verifier import faults

SAID: list[tuple[str, Table, dict[str, object], list[str]]] = [
    ("an unknown role", table(lerner__update=rows()), {}, [
        "triggers['lerner.update']: there is no 'lerner.update': did you mean learner? "
        "(write learner.METHOD, actors.METHOD, evaluator.play, set.NAME or transfer)"]),
    ("another method of the evaluator", table(evaluator__paly=ObjectKeyTrigger()), {}, [
        "triggers['evaluator.paly']: the evaluator has no method 'paly': write 'evaluator.play'"]),
    ("rows for the evaluator", table(evaluator__play=rows()), {}, [
        "triggers['evaluator.play']: a DataKeyTrigger hands over rows, and the evaluator takes "
        "none: let an ObjectKeyTrigger or a TimeTrigger say when it plays"]),
    ("an unknown method of the actor", table(actors__synk=TimeTrigger(1.0)), {}, [
        "triggers['actors.synk']: the actor has no method 'synk': did you mean sync?"]),
    ("no methods at all", table(), {"methods": {}}, [
        "triggers['learner.update']: the learner has no method 'update'",
        "triggers['actors.sample']: the actor has no method 'sample'"]),
    ("an unknown object", table(learner__update=rows(object_key="modle_param")), {}, [
        "triggers['learner.update']: unknown object key 'modle_param': did you mean model_param? "
        "(have model_param)"]),
    ("no keys", table(learner__update=DataKeyTrigger((), n=4, size=16)), {}, [
        "triggers['learner.update']: names no data key: name one of observations, rewards, dones, "
        "policy_version"]),
    ("a transfer of nothing", table(transfer=TransferTrigger(KEYS, size=-1)), {}, [
        "triggers['transfer']: size must be a whole number of at least 0, not -1"]),
    ("nothing samples", table(actors__sample=None), {}, [
        'nothing fires sampling: add e.g. "actors.sample": ObjectKeyTrigger("model_param")']),
    ("nothing learns", table(learner__update=None), {"on_full": "overwrite"}, [
        'nothing fires the learner: add e.g. "learner.update": DataKeyTrigger(keys, n, size)']),
    ("actors take no rows", table(actors__sync=rows()), {}, [
        "triggers['actors.sync']: a DataKeyTrigger hands over rows, and actors take none: let a "
        "learner method consume them"]),
    ("twice the same rows", table(learner__update=rows() | rows()), {}, [
        "triggers['learner.update']: two DataKeyTriggers in one target would hand over the same "
        "rows twice: use one with all keys, or two targets"]),
    ("not a transfer", table(transfer=TimeTrigger(1.0)), {}, [
        "triggers['transfer']: a transfer needs TransferTrigger(keys, condition=TRIGGER)",
        "triggers['learner.update']: data key 'observations' never arrives in the replay buffer: "
        "add it to a stage of the transfer",
        "triggers['learner.update']: data key 'rewards' never arrives in the replay buffer: "
        "add it to a stage of the transfer"]),
    ("a transfer elsewhere", table(learner__preprocess=SHIPPED), {}, [
        "triggers['learner.preprocess']: a TransferTrigger fires transfers: write \"transfer\": "
        "TransferTrigger()"]),
    ("a condition that waits for what it ships",
     table(transfer=TransferTrigger(KEYS, condition=rows())), {}, [
        "triggers['transfer']: its condition waits for rows that only arrive after it "
        "ships them"]),
    ("the only one is non_publishing", table(), {"non_publishing": ("update",)}, [
        "nothing fires a method that publishes: learner.update publish nothing; add e.g. "
        '"learner.update": DataKeyTrigger(keys, n, size)']),
    ("all publish nothing", table(learner__preprocess=rows()),
     {"non_publishing": ("update", "preprocess")}, [
        "nothing fires a method that publishes: learner.preprocess, learner.update publish "
        'nothing; add e.g. "learner.update": DataKeyTrigger(keys, n, size)']),
    ("frames that are looked back to are no room", table(),
     {"capacity": 16, "data_keys": (*(DataKey(key) for key in KEYS), DataKey("x", stack=3))}, [
        "a round of steps=16 never fits the capacity of 14 usable rows: raise capacity or lower "
        "steps",
        "triggers['learner.update']: size=16 rows never fit the capacity of 14 usable rows: raise "
        "capacity or lower size"]),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "changes", "words"), [pytest.param(*c, id=i) for i, *c in SAID])
def test_the_faults_are_exactly_these(
    broken: Table, changes: dict[str, object], words: list[str]
) -> None:
    found = faults(new_plan(broken, **changes), broken)
    assert [fault for fault in found if fault in words] == words, found


@pytest.mark.parametrize("probability", [1, 1.0])
def test_who_is_sure_to_be_chosen_goes_on(probability: float) -> None:
    sound = table(actors__sample=ObjectKeyTrigger(probability=probability))
    assert faults(new_plan(sound), sound) == []


@pytest.mark.parametrize(("targets", "fits"), [(8, True), (9, False)])
def test_a_block_has_room_for_eight_consumers(targets: int, fits: bool) -> None:
    methods = [f"update{n}" for n in range(targets)]
    wide = table(learner__update=None) | {f"learner.{name}": rows() for name in methods}
    plan = new_plan(wide, methods={"actors": ("sample",), "learner": tuple(methods)})
    words = f"{targets} targets consume rows: a block has room for 8"
    assert (words in faults(plan, wide)) is not fits


@pytest.mark.parametrize(("count", "fits"), [(62, True), (63, False)])
def test_a_block_has_room_for_so_many_keys(tmp_path: Path, count: int, fits: bool) -> None:
    names = [*KEYS, *(f"more{n}" for n in range(count - len(KEYS)))]
    many = new_plan(table(), data_keys=tuple(DataKey(name) for name in names))
    words = f"actors write {count} data keys: a block has room for 62; "
    assert any(fault.startswith(words) for fault in faults(many, table())) is not fits
    if fits:  # as a block sees it
        block = ActorBlock.create(tmp_path / "block", many.block(0))
        block.commit(block.allocate(1) + 1)
        assert block.written == 1


def test_a_silent_method_of_no_learner_is_unknown() -> None:
    nobody = table(learner__update=None)
    plan = new_plan(nobody, non_publishing=("helps",), methods={"actors": ("sample",)})
    assert non_publishing.faults(plan, nobody) == [
        "non_publishing names 'helps', but the learner has no such method"
    ]
