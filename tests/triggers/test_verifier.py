"""The wiring verifier: every fault is found before launch, all at once, each with its cure."""

from __future__ import annotations

import re

import pytest
from trigger_helpers import KEYS, new_plan

from artos.specs.actor_count import Manual, Schedule
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.table import Table
from triggers.verify.verifier import faults


def table(**changes: object) -> Table:
    """A sound table; ``learner__update=...`` replaces or adds a target, None removes one."""
    sound: Table = {
        "learner.update": DataKeyTrigger(KEYS, n=4, size=16),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return {t: trigger for t, trigger in {**sound, **named}.items() if trigger is not None}  # type: ignore[misc]


def rows(n: int | None = 4, size: int = 16, **more: object) -> DataKeyTrigger:
    return DataKeyTrigger(KEYS, n=n, size=size, **more)  # type: ignore[arg-type]


SHIPPED = TransferTrigger(("rewards",), size=16)

FAULTY: list[tuple[str, Table, dict[str, object], str]] = [
    ("unknown role", table(lerner__update=rows()), {},
     r"there is no 'lerner.update': did you mean learner"),
    ("unknown learner method", table(learner__updat=rows()), {},
     r"learner has no method 'updat': did you mean update"),
    ("unknown actor method", table(actors__sampel=ObjectKeyTrigger()), {},
     r"actor has no method 'sampel': did you mean sample"),
    ("a learner does not sync", table(learner__sync=TimeTrigger(1)), {}, r"no method 'sync'"),
    ("transfer has no method", table(transfer__now=SHIPPED), {}, r"there is no 'transfer.now'"),
    ("unknown data key", table(learner__update=DataKeyTrigger(("reward",), n=4, size=16)), {},
     r"unknown data key 'reward': did you mean rewards\? \(have observations, rewards"),
    ("unknown object key", table(actors__sync=ObjectKeyTrigger("model_params")), {},
     r"unknown object key 'model_params': did you mean model_param"),
    ("unknown key of a transfer", table(transfer=TransferTrigger(("obs", "rewards"))), {},
     r"unknown data key 'obs'"),
    ("unknown key inside a condition",
     table(transfer=TransferTrigger(KEYS, 16, ObjectKeyTrigger("modle_param"))), {},
     r"'modle_param': did you mean model_param"),
    ("unknown key inside a composition", table(actors__sync=TimeTrigger(1) & ObjectKeyTrigger("x")),
     {}, r"unknown object key 'x'"),
    ("no keys", table(learner__update=DataKeyTrigger((), n=4, size=16)), {}, r"names no data key"),
    ("n too large", table(learner__update=rows(n=5)), {}, r"n=5 actors, but there are 4: raise"),
    ("n too large at times", table(), {"scaling": Schedule({0: 4, 3: 2})},
     r"n=4 actors, but at times there are only 2: leave out n"),
    ("size over capacity", table(), {"capacity": 8, "steps": 8},
     r"size=16 rows never fit the capacity of 8 usable rows: raise capacity or lower size"),
    ("round over capacity", table(learner__update=rows(size=8)), {"capacity": 8},
     r"steps=16 never fits the capacity of 8 usable rows"),
    ("waits for itself", table(learner__update=rows(size=32)), {},
     r"granted only 16 before the next version.*waits for itself; set size to steps or fewer"),
    ("versions that never come", table(actors__sample=ObjectKeyTrigger(every=2)), {},
     r"sample the rows of only 0\.5 updates: .* itself; lower .*, or sample on .* put every= on"),
    ("outruns its versions", table(learner__update=rows(n=None, size=32, max_lag=1)), {},
     r"the rows of only 0\.5 updates: a cycle that waits for itself; lower size$"),
    ("some outrun their versions", table(learner__update=rows(n=3, size=32, max_lag=2)), {},
     r"the rows of only 0\.5 updates: a cycle that waits for itself; lower size or n$"),
    ("outruns each second version",
     table(learner__update=rows(max_lag=1), actors__sample=ObjectKeyTrigger(every=2)), {},
     r"the rows of only 0\.5 updates: .* put every= on actors.sync"),
    ("leaves one alone",
     table(learner__update=rows(n=3, size=4), actors__sample=ObjectKeyTrigger(every=5)), {},
     r"the rows of only 0\.8 updates"),
    ("needs what is dropped", table(learner__update=rows(n=1, size=32, max_lag=1)), {},
     r"max_lag=1 drops rows .* up to 3 versions old: .* itself; raise max_lag or lower size"),
    ("both outrun their versions",
     table(learner__update=rows(size=32, max_lag=3), learner__preprocess=rows(size=64)), {},
     r"'learner.preprocess'\]: a version lets actors sample the rows of only 0\.25 updates"),
    ("outruns its versions, and a non-publishing target makes none",
     table(learner__update=rows(size=32, max_lag=1), learner__preprocess=rows()),
     {"non_publishing": ("preprocess",)}, r"'learner.update'\]: .* only 0\.5 updates"),
    ("only by chance", table(actors__sample=ObjectKeyTrigger(probability=0.5)), {},
     r"stops for good once no actor is chosen"),
    ("does not divide", table(learner__update=rows(size=12)), {}, r"size=12 .*steps=16 do not div"),
    ("nothing samples", table(actors__sample=None), {}, r"nothing fires sampling: add"),
    ("only syncs", table(actors__sample=None, actors__sync=ObjectKeyTrigger()), {},
     r"nothing fires sampling: add"),
    ("nothing learns", table(learner__update=None), {"on_full": "overwrite"},
     r"nothing fires the learner: add"),
    ("nobody consumes", table(learner__update=TimeTrigger(1)), {}, r'set on_full="overwrite"'),
    ("actors take no rows", table(actors__sync=rows()), {}, r"let a learner method consume them"),
    ("twice the same rows", table(learner__update=rows() | rows(size=8)), {}, r"rows twice"),
    ("max_lag held back", table(learner__update=rows(max_lag=1) & TimeTrigger(1)), {},
     r"max_lag cannot be kept inside `&`"),
    *[(f"max_lag held back on the {side}", table(learner__update=composed), {},
       r"max_lag cannot be kept inside `&`") for side, composed in (
          ("left", (rows(max_lag=1) & TimeTrigger(1)) | TimeTrigger(5)),
          ("right", TimeTrigger(5) | (rows(max_lag=1) & TimeTrigger(1))),
          ("right of the right",
           TimeTrigger(5) | (TimeTrigger(6) | (TimeTrigger(1) & rows(max_lag=1)))))],
    ("never shipped", table(transfer=SHIPPED), {}, r"'observations' never arrives in the replay"),
    ("ships its condition", table(transfer=TransferTrigger(KEYS, condition=rows())), {},
     r"only arrive after it ships them"),
    ("not a transfer", table(transfer=TimeTrigger(1)), {}, r"TransferTrigger\(keys, condition"),
    ("transfer elsewhere", table(learner__preprocess=SHIPPED), {}, r'write "transfer"'),
    ("ships too much", table(transfer=TransferTrigger(KEYS, size=32)), {"capacity": 64},
     r"'transfer'\].*granted only 16"),
    *[(f"size={bad!r}", table(learner__update=rows(size=bad)), {},  # type: ignore[arg-type]
       rf"size must be a whole number of at least 1, not {bad!r}") for bad in (0, -1, 1.5, True)],
    *[(f"n={bad!r}", table(learner__update=rows(n=bad)), {},  # type: ignore[arg-type]
       rf"n must be a whole number of at least 1, not {bad!r}") for bad in (0, -3, "4")],
    ("max_lag=-1", table(learner__update=rows(max_lag=-1)), {}, r"max_lag must be .* not -1"),
    ("every=0", table(actors__sync=ObjectKeyTrigger(every=0)), {}, r"every must be .* not 0"),
    ("lead=-1", table(actors__sync=ObjectKeyTrigger(lead=-1)), {}, r"lead must be .* not -1"),
    *[(f"probability={bad!r}", table(actors__sync=ObjectKeyTrigger(probability=bad)), {},
       rf"above 0 and at most 1, not {bad!r}") for bad in (0.0, -0.1, 1.5)],
    *[(f"t={bad!r}", table(actors__sync=TimeTrigger(bad)), {}, rf"positive.*not {bad!r}")
      for bad in (0.0, -1.0, float("inf"), float("nan"))],
]  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "changes", "words"), [pytest.param(*c, id=i) for i, *c in FAULTY]
)
def test_each_fault_is_found_and_says_what_to_change(
    broken: Table, changes: dict[str, object], words: str
) -> None:
    found = faults(new_plan_of(broken, changes), broken)
    assert any(_matches(words, fault) for fault in found), found


def new_plan_of(broken: Table, changes: dict[str, object]):  # type: ignore[no-untyped-def]
    """The plan of a table so broken that it cannot be completed keeps what registration gave it."""
    try:
        return new_plan(broken, **changes)
    except (TypeError, ValueError, ZeroDivisionError):
        return new_plan(table(), **changes)


def _matches(words: str, fault: str) -> bool:
    return re.search(words, fault) is not None


def test_several_faults_are_reported_at_once() -> None:
    broken = table(
        learner__update=DataKeyTrigger(("reward", "observation"), n=-1, size=16),
        actors__sampel=ObjectKeyTrigger("model_parm"),
    )
    found = faults(new_plan(broken), broken)
    assert len(found) == 5
    for words in ("'reward'", "'observation'", "not -1", "'sampel'", "'model_parm'"):
        assert any(words in fault for fault in found), words


def test_faults_of_amounts_come_together_too() -> None:
    broken = table(learner__update=rows(n=9, size=64))
    assert len(faults(new_plan(broken), broken)) == 2


def test_who_is_fed_but_for_what_is_dropped_is_told_only_that() -> None:
    """Two batches of 32 rows from four actors' 16: just one update a version."""
    broken = table(learner__update=rows(n=2, size=32, max_lag=1))
    (fault,) = faults(new_plan(broken), broken)
    assert "max_lag=1 drops rows" in fault


@pytest.mark.parametrize(
    "sound",
    [
        table(),
        table(learner__update=rows(n=None, size=8)),
        table(learner__update=rows(n=2, size=32, max_lag=3)),
        table(learner__update=rows(n=None, size=32, max_lag=1) | TimeTrigger(5.0)),
        table(learner__update=rows(max_lag=1), learner__preprocess=rows(size=32)),
        table(
            learner__update=rows(n=3, size=32),
            actors__sample=ObjectKeyTrigger(lead=1),
            learner__preprocess=rows(n=3, size=32),
        ),
        table(learner__update=rows(n=1, max_lag=2), actors__sync=ObjectKeyTrigger(every=3)),
        table(learner__update=rows(n=1), actors__sample=ObjectKeyTrigger(every=4)),
        table(learner__update=rows() & TimeTrigger(0.1), actors__sync=TimeTrigger(1.0)),
        table(learner__update=rows(max_lag=1) | TimeTrigger(5.0)),
        table(
            learner__update=rows(size=8, max_lag=1),
            actors__sample=ObjectKeyTrigger(every=2) | ObjectKeyTrigger(every=3),
        ),
        table(actors__sample=ObjectKeyTrigger(probability=0.5) | TimeTrigger(1.0)),
        table(transfer=TransferTrigger(KEYS, condition=TimeTrigger(0.5))),
    ],
    ids=str,
)
def test_a_sound_table_has_no_faults(sound: Table) -> None:
    assert faults(new_plan(sound), sound) == []


@pytest.mark.parametrize("n", [None, 1, 2])
def test_a_number_of_actors_that_changes_has_no_fault_where_no_trigger_waits_for_more(
    n: int | None,
) -> None:
    sound = table(learner__update=rows(n=n))
    for scaling in (Schedule({0: 2, 5: 4}), Manual(2, 4)):
        assert faults(new_plan(sound, scaling=scaling), sound) == []
