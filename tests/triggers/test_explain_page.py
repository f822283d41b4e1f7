"""``artos explain``, word by word: the whole page of two workloads."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from test_explain import PIPELINE
from trigger_helpers import new_plan

from artos.specs.actor_count import Schedule
from artos.specs.configuration import Changeable
from artos.specs.keys import DataKey
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger, TimeTrigger, TransferTrigger, Trigger
from triggers.events import Event
from triggers.explain import explain
from triggers.setting import settable
from triggers.table import Table


@dataclass
class Custom(Trigger):
    """A user's own."""

    threshold: float = 0.5

    def check(self, event: Event, now: float) -> Firing | None:
        return None


KEYS_OF_RICH = (
    DataKey("frames", (84, 84), "uint8", stack=4), DataKey("flag", (), "bool", per_env=False),
    *(DataKey(name) for name in ("rewards", "values", "log_probs", "advantages_of_the_critic")),
)  # fmt: skip
NAMES_OF_RICH = tuple(key.name for key in KEYS_OF_RICH)
RICH: Table = {
    "transfer": TransferTrigger(
        (NAMES_OF_RICH[:4], NAMES_OF_RICH[4:]), condition=TimeTrigger(0.25)
    ),
    "learner.help": DataKeyTrigger(NAMES_OF_RICH, n=1, size=8),
    "learner.update": DataKeyTrigger(NAMES_OF_RICH[1:5], n=2, size=16, max_lag=1)
    | ObjectKeyTrigger("model_param", every=2, lead=3),
    "learner.more": DataKeyTrigger(("flag",), n=1, size=2, max_lag=2) & Custom(0.75),
}


def test_a_pipeline() -> None:
    assert explain(new_plan(PIPELINE), PIPELINE) == PIPELINE_PAGE


def test_everything_that_can_be_said() -> None:
    """More keys than fit, stacks, a non-publishing target, a user's own trigger, chances, leads."""
    plan = new_plan(
        RICH, data_keys=KEYS_OF_RICH, non_publishing=("help",), scaling=Schedule({0: 2, 5: 4}),
        on_full="overwrite", capacity=128,
    )  # fmt: skip
    assert explain(plan, RICH) == RICH_PAGE


@pytest.mark.parametrize(
    ("keys", "says"),
    [("abcd", "a, b, c, d"), ("abcde", "a, b, c and 2 more keys"), ("a", "a")],
)
def test_up_to_four_keys_are_named(keys: str, says: str) -> None:
    trigger = DataKeyTrigger(tuple(keys), size=3)
    assert trigger.words() == f"3 rows of {says} from all actors"


def test_a_stack_of_two_is_one() -> None:
    keys = (DataKey("frames", (4,), "uint8", stack=2),)
    table: Table = {"learner.update": DataKeyTrigger(("frames",), size=16)}
    assert "2x4 (stacks of 2 rebuilt)" in explain(new_plan(table, data_keys=keys), table)


def test_words_with_hyphens_are_kept_together() -> None:
    name = "a-rather-long-name-" * 3
    table: Table = {"learner.update": DataKeyTrigger((f"x{name}z", f"y{name}z"), size=16)}
    text = explain(new_plan(table), table)
    assert text.count(f"x{name}z") == text.count(f"y{name}z") == 2


def test_threads_that_follow_free_cores_are_told_with_what_that_means() -> None:
    said = "cores free: a seed repeats all but the last bits"
    assert said not in explain(new_plan(PIPELINE), PIPELINE)
    assert said in explain(new_plan(PIPELINE, threads=4, threads_follow=True), PIPELINE)


def test_what_can_be_set_is_what_artos_set_takes() -> None:
    plan = new_plan(
        RICH, data_keys=KEYS_OF_RICH, changeable=(Changeable("lr", gt=0), Changeable("k")),
        settable=(Changeable("wind", ge=0, le=9),),
    )  # fmt: skip
    (line,) = (each for each in explain(plan, RICH).splitlines() if each.startswith("settable"))
    named = [each.partition(" (")[0] for each in line.removeprefix("settable: ").split(", ")]
    assert [each for each in named if not each.startswith("at most")] == [*settable(plan, RICH)]


PIPELINE_PAGE = """\
test: 4 actors x 2 environments of CartPole-v1
sampling: rounds of 16 steps (128 over all actors and environments), 10000 steps in all
buffer: 16 rows and 0.00 MB per actor, when full: wait
model: 7 slots of 0.00 MB

control logic       trigger                       fires on
------------------  ----------------------------  ------------------------------------------------
transfer            TransferTrigger               16 rows of rewards, dones then observations
learner.preprocess  DataKeyTrigger                16 rows of rewards, dones from 4 actors
learner.update      DataKeyTrigger & TimeTrigger  16 rows of observations from 4 actors, and every
                                                  0.5 s
actors.sync         ObjectKeyTrigger              versions 0, 3, ... of model_param, each actor by
                                                  0.5
actors.sample       ObjectKeyTrigger              every version of model_param

data key      shape  dtype    bytes a row
------------  -----  -------  -----------
observations  2x4    float32  32
rewards       2      float32  8
dones         2      bool     2

what fires what:

  +-> [4 actors]
  |      |  commit rows
  |      v
  |   [cache buffer]
  |      |  transfer  on 16 rows of rewards, dones then observations
  |      v
  |   [replay buffer]
  |      |  learner.preprocess  on 16 rows of rewards, dones from 4 actors
  |      |  learner.update      on 16 rows of observations from 4 actors, and every 0.5 s
  |      v
  |   [learner]
  |      |  publish a version
  |      v
  |   [model block]
  |      |  actors.sync    on versions 0, 3, ... of model_param, each actor by 0.5
  |      |  actors.sample  on every version of model_param
  +------+"""

RICH_PAGE = """\
test: 2 to 4 actors x 2 environments of CartPole-v1
scaling: 2 actors, 4 from update 5 on
sampling: rounds of 16 steps (64 to 128 over all actors and environments), 10000 steps in all
buffer: 128 rows and 1.81 MB per actor, when full: overwrite
model: 7 slots of 0.00 MB
settable: max_lag (at least 0)

control logic   trigger                            fires on
--------------  ---------------------------------  -----------------------------------------------
transfer        TransferTrigger                    every 0.25 s: all rows of frames, flag,
                                                   rewards, values then log_probs,
                                                   advantages_of_the_critic
learner.help    DataKeyTrigger                     8 rows of frames, flag, rewards and 3 more keys
                                                   from 1 actor
learner.update  DataKeyTrigger | ObjectKeyTrigger  16 rows of flag, rewards, values, log_probs
                                                   from 2 actors, at most 1 version old, or
                                                   versions 0, 2, ... of model_param, actors up to
                                                   3 rounds ahead
learner.more    DataKeyTrigger & Custom            2 rows of flag from 1 actor, at most 2 versions
                                                   old, and Custom(threshold=0.75)

data key                  shape                          dtype    bytes a row
------------------------  -----------------------------  -------  -----------
frames                    2x84x84 (stacks of 4 rebuilt)  uint8    14112
flag                      1                              bool     1
rewards                   2                              float32  8
values                    2                              float32  8
log_probs                 2                              float32  8
advantages_of_the_critic  2                              float32  8

what fires what:

  +-> [2 to 4 actors]
  |      |  commit rows
  |      v
  |   [cache buffer]
  |      |  transfer  on every 0.25 s: all rows of frames, flag, rewards, values then log_probs,
  |      |               advantages_of_the_critic
  |      v
  |   [replay buffer]
  |      |  learner.help    on 8 rows of frames, flag, rewards and 3 more keys from 1 actor
  |      |  learner.update  on 16 rows of flag, rewards, values, log_probs from 2 actors, at most
  |      |                     1 version old, or versions 0, 2, ... of model_param, actors up to 3
  |      |                     rounds ahead
  |      |  learner.more    on 2 rows of flag from 1 actor, at most 2 versions old, and
  |      |                     Custom(threshold=0.75)
  |      v
  |   [learner]
  |      |  publish a version on learner.update and learner.more
  |      v
  |   [model block]
  |      |  nothing fires the actors
  +------+"""
