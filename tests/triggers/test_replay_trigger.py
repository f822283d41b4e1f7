"""Replay as a trigger: what is drawn, how often, and who waits for whom."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trigger_helpers import KEYS, arrived, feed, fire, joined, new_plan

from artos.buffer.model_block import ObjectSpec
from artos.buffer.part_of_block import Part, stored_name
from artos.buffer.samplers.patterns import Prioritised, Sequences, Uniform
from artos.runs.plan import Beside, Plan
from artos.specs.keys import ArraySpec, DataKey
from triggers import (
    Firing,
    ReplayTrigger,
    RoundTrigger,
    TimeTrigger,
    TransferTrigger,
    Trigger,
    wiring,
)
from triggers.events import Event, Joined, Learned, Left, Published, Rewound
from triggers.replay import RateLimit
from triggers.table import Table, decode_trigger
from triggers.verify.verifier import faults

UPDATE = "learner.update"
READ = (*KEYS, "terminations", "truncations", "valid", "ages")
ROUND = 32  # transitions: 16 steps of 2 environments
DONE, WEIGHTS = Learned(UPDATE), Published("model_param", 0)
NOTHING = Learned(UPDATE, drew=False)


def table(**changes: Any) -> Table:
    """A table with replay at ratio 2 after a warm-up of two rounds."""
    given = {"sample": Uniform(16), "ratio": 2.0, "after": 2 * ROUND} | changes
    replay = ReplayTrigger(KEYS, **given)
    return {UPDATE: replay, "actors.sample": RoundTrigger()}


def replay_of(wired: Table) -> tuple[ReplayTrigger, RoundTrigger]:
    replay, rounds = wired.values()
    assert isinstance(replay, ReplayTrigger)
    assert isinstance(rounds, RoundTrigger)
    return replay, rounds


def completed(**changes: Any) -> tuple[ReplayTrigger, RoundTrigger]:
    wired = table(**changes)
    new_plan(wired, capacity=640, on_full="overwrite")
    return replay_of(wired)


def each_round(firings: list[Firing]) -> list[int]:
    """The actor of each round that is asked for."""
    return [
        actor for firing in firings for actor in firing.actors or () for _ in range(firing.rounds)
    ]


# -- the limit -------------------------------------------------------------------------------------


class Model:
    """The limit in the plainest words: lists of what was inserted and sampled."""

    def __init__(self, ratio: float, after: int, slack: float) -> None:
        self.ratio, self.after, self.slack = ratio, after, slack
        self.rows: list[int] = []
        self.draws: list[int] = []

    def error(self, more_rows: int = 0, more_draws: int = 0) -> float:
        wanted = self.ratio * (len(self.rows) + more_rows - self.after)
        return wanted - (len(self.draws) + more_draws)


@given(
    st.floats(0.1, 20),
    st.integers(0, 50),
    st.floats(1, 200),
    st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=60),
)
def test_the_limit_is_that_of_the_plain_model(
    ratio: float, after: int, slack: float, asked: list[tuple[bool, int]]
) -> None:
    limit, model = RateLimit(ratio, after, slack), Model(ratio, after, slack)
    for inserts, count in asked:
        if inserts:
            allowed = len(model.rows) < after or model.error(more_rows=count) <= slack
            assert limit.may_insert(count) == allowed
            if allowed:
                limit.granted = limit.inserted = limit.granted + count
                model.rows += [0] * count
        else:
            enough = len(model.rows) >= max(1, after)
            allowed = enough and model.error(more_draws=count) >= -slack
            assert limit.may_sample(count) == allowed
            if allowed:
                limit.sampled += count
                model.draws += [0] * count


@given(
    ratio=st.sampled_from([0.25, 1.0, 3.0, 8.0]),
    batch=st.integers(1, 200),
    after=st.integers(0, 200),
    order=st.randoms(use_true_random=False),
)
def test_whatever_comes_first_the_ratio_is_kept_and_neither_side_starves(
    ratio: float, batch: int, after: int, order: Any
) -> None:
    replay, rounds = completed(ratio=ratio, after=after, sample=Uniform(batch))
    limit = replay.limit
    rows: Counter[int] = Counter()
    asked = feed(rounds, joined(4))
    under_way = each_round(asked)
    updates = len(fire(replay, WEIGHTS))
    for _ in range(300):
        assert under_way or updates, f"everybody waits: {limit}"
        if under_way and (not updates or order.random() < 0.5):
            actor = under_way.pop(order.randrange(len(under_way)))
            rows[actor] += 16
            event: Event = arrived(actor, rows[actor])
        else:
            updates, event = updates - 1, DONE
        updates += len(fire(replay, event))
        under_way += each_round(fire(rounds, event))
        if limit.inserted > after:
            error = ratio * (limit.inserted - after) - limit.sampled
            assert abs(error) <= limit.slack + ratio * ROUND * 8, (
                "beyond it only by what was granted"
            )
    assert limit.sampled > 0


# -- the two triggers ------------------------------------------------------------------------------


def test_nothing_is_drawn_before_the_warm_up_and_the_first_weights() -> None:
    replay, _ = completed()
    assert feed(replay, [WEIGHTS, arrived(0, 16)]) == []
    assert fire(replay, arrived(1, 16))
    early, _ = completed()
    assert feed(early, [arrived(0, 16), arrived(1, 16)]) == []
    assert fire(early, WEIGHTS)


def test_two_updates_are_under_way_at_most_and_none_is_forgotten() -> None:
    replay, _ = completed(ratio=100.0)
    assert len(feed(replay, [WEIGHTS, arrived(0, 64)])) == 2
    assert fire(replay, arrived(1, 64)) == []
    assert len(fire(replay, DONE)) == 1
    assert fire(replay, Learned("learner.other")) == []


def test_a_draw_that_finds_nothing_is_given_back_and_waits_for_new_rows() -> None:
    replay, rounds = completed(ratio=100.0, after=0)
    assert len(feed(replay, [WEIGHTS, arrived(0, 16)])) == 2
    assert fire(replay, arrived(0, 32)) == [], "two are under way"
    for _ in range(2):
        assert len(fire(replay, NOTHING)) == 1, "rows came after the draw was asked for"
    for _ in range(2):
        assert fire(replay, NOTHING) == [], "a busy loop"
    assert replay.limit.sampled == 0
    feed(rounds, joined(1))
    replay.limit.granted = 10_000
    assert replay.limit.may_insert(ROUND), "who could make new rows does not wait"
    assert len(fire(replay, arrived(0, 48))) == 2
    assert not replay.limit.may_insert(ROUND)


@given(
    max_lag=st.integers(0, 2),
    ratio=st.sampled_from([0.5, 8.0]),
    batch=st.integers(1, 200),
    order=st.randoms(use_true_random=False),
)
def test_rows_that_are_too_old_stop_neither_side(
    max_lag: int, ratio: float, batch: int, order: Any
) -> None:
    """Actors whose rows are of the version at the start of their round, and a learner ahead."""
    wired = table(ratio=ratio, after=0, sample=Uniform(batch), max_lag=max_lag)
    new_plan(wired, capacity=640, on_full="overwrite")
    replay, rounds = replay_of(wired)
    version, made, drawn, empty = 0, {0: 0, 1: 0}, 0, 0
    newest: dict[int, int] = {}
    updates: deque[Any] = deque()
    todo: deque[tuple[int, int]] = deque()

    def tell(event: Event) -> None:
        updates.extend(fire(replay, event))
        todo.extend((actor, version) for actor in each_round(fire(rounds, event)))

    for event in [*joined(2), WEIGHTS]:
        tell(event)
    for _ in range(200):
        assert todo or updates, f"everybody waits: {replay.limit}"
        if todo and (not updates or order.random() < 0.5):
            actor, _ = todo.popleft()
            made[actor] += 16
            newest[actor] = version
            tell(arrived(actor, made[actor], version))
            continue
        updates.popleft()
        found = bool(newest) and version - max(newest.values()) <= max_lag
        drawn, empty = drawn + found * batch, empty + (not found)
        if found:
            version += 1
            tell(Published("model_param", version))
        tell(Learned(UPDATE, drew=found))
    assert replay.limit.sampled == drawn + batch * len(updates)
    assert empty <= 2 + sum(made.values()) // 16 * 2, "no more than two for each round that came"
    assert version > 0


def test_what_a_ratio_allows_is_known_before_actors_ask() -> None:
    given = dict(reversed(table().items()))
    _, paced = wiring.completed(new_plan(table(), capacity=640, on_full="overwrite"), given)
    assert list(paced) == [UPDATE, "actors.sample"]


def test_a_batch_of_sequences_draws_all_their_rows() -> None:
    replay, _ = completed(sample=Sequences(4, 10), ratio=1.0, after=0)
    feed(replay, [WEIGHTS, arrived(0, 64)])
    assert replay.limit.sampled == 2 * 4 * 10


def test_rows_that_were_lost_with_a_node_count_no_more() -> None:
    replay, _ = completed()
    feed(replay, [WEIGHTS, arrived(0, 64)])
    assert replay.limit.inserted == 128
    fire(replay, Rewound(0, 16))
    assert replay.limit.inserted == 32


def test_actors_that_the_ratio_holds_back_take_turns() -> None:
    """Each samples faster than updates come: none of them gets all the rounds."""
    replay, rounds = completed(ratio=8.0, after=32, sample=Uniform(16))
    rows: Counter[int] = Counter()
    under_way = each_round(feed(rounds, joined(3)))
    updates = len(fire(replay, WEIGHTS))
    for _ in range(1_000):
        if under_way:
            actor = under_way.pop(0)
            rows[actor] += 16
            event: Event = arrived(actor, rows[actor])
        else:
            updates -= 1
            event = DONE
        updates += len(fire(replay, event))
        under_way += each_round(fire(rounds, event))
    assert sum(rows.values()) > 20 * 16
    assert max(rows.values()) - min(rows[actor] for actor in range(3)) <= 2 * 16


def test_a_round_is_there_once_all_that_is_transferred_is() -> None:
    """Keys come one after the other; the next round is not asked for with the first of them."""
    wired: Table = {
        "transfer": TransferTrigger((("rewards",), ("observations",)), 16),
        "actors.sample": RoundTrigger(ahead=1),
    }
    new_plan(wired)
    rounds = wired["actors.sample"]
    assert [firing.actors for firing in fire(rounds, Joined(0))] == [(0,)]
    assert fire(rounds, arrived(0, 16, keys=["rewards"])) == []
    assert [f.actors for f in fire(rounds, arrived(0, 16, keys=["observations"]))] == [(0,)]


def test_actors_sample_on_without_waiting_for_one_another() -> None:
    alone = RoundTrigger()
    wired: Table = {UPDATE: TimeTrigger(1.0), "actors.sample": alone}
    new_plan(wired)
    rounds = wired["actors.sample"]
    first = feed(rounds, joined(2))
    assert [(firing.actors, firing.rounds) for firing in first] == [((0,), 2), ((1,), 2)]
    assert [firing.actors for firing in fire(rounds, arrived(1, 16))] == [(1,)]
    assert fire(rounds, arrived(1, 24)) == []
    assert fire(rounds, Left(1, 48)) == []
    assert fire(rounds, arrived(1, 48)) == []


def test_an_actor_that_comes_back_goes_on_where_it_was() -> None:
    _, rounds = completed(after=10_000)
    feed(rounds, [*joined(1), arrived(0, 16), Left(0, 48), arrived(0, 32), arrived(0, 48)])
    [firing] = fire(rounds, Joined(0, 1, 400))
    assert (firing.actors, firing.rounds) == ((0,), 2)
    assert each_round(fire(rounds, arrived(0, 64))) == [0]


def test_rows_that_are_sampled_again_ask_for_no_more_rounds() -> None:
    _, rounds = completed(after=10_000)
    feed(rounds, [*joined(1), arrived(0, 16), arrived(0, 32)])
    assert feed(rounds, [Rewound(0, 16), arrived(0, 32)]) == []
    assert each_round(fire(rounds, arrived(0, 48))) == [0]


def test_actors_wait_for_a_learner_that_is_behind() -> None:
    replay, rounds = completed(ratio=8.0)
    feed(rounds, joined(1))
    asked, rows = True, 0
    while asked:
        rows += 16
        fire(replay, arrived(0, rows))
        asked = bool(fire(rounds, arrived(0, rows)))
        assert rows < 10_000, "actors run away from the learner"
    fire(replay, WEIGHTS)
    for _ in range(40):
        fire(replay, DONE)
    assert fire(rounds, DONE), "an actor that waited samples on when the learner has caught up"


@pytest.mark.parametrize(
    "sample",
    [Uniform(8, 3, 0.9), Prioritised(8, beta=(0.4, 1.0), initial="p"), Sequences(4, 10)],
)
def test_a_trigger_is_the_same_when_it_comes_from_a_plan(sample: Any) -> None:
    trigger = ReplayTrigger(KEYS, sample, ratio=3.0, after=5, slack=100.0, max_lag=7)
    data = msgspec.json.decode(msgspec.json.encode(trigger.encode()))
    assert decode_trigger(data, pytest.fail) == trigger


# -- what is refused -------------------------------------------------------------------------------


def words(trigger: Trigger, target: str = UPDATE, **changes: Any) -> str:
    keys = (DataKey("observations", (4,)), *(DataKey(name) for name in READ[1:]))
    wired: Table = {target: trigger, "actors.sample": RoundTrigger()}
    plan = new_plan(
        wired, **({"capacity": 640, "on_full": "overwrite", "data_keys": keys} | changes)
    )
    return "\n".join(faults(plan, wired))


def test_a_sound_table_is_not_refused() -> None:
    assert words(ReplayTrigger(KEYS, Uniform(16), after=64)) == ""
    assert words(ReplayTrigger(KEYS, Sequences(4, 599, burn_in=40), after=64)) == ""


@pytest.mark.parametrize(
    ("trigger", "changes", "found"),
    [
        (ReplayTrigger("nobody", Uniform(16), after=64), {}, "unknown data key 'nobody'"),
        (ReplayTrigger(KEYS, Uniform(0), after=64), {}, "batch must be a whole number"),
        (ReplayTrigger(KEYS, Uniform(16, gamma=2.0), after=64), {}, "gamma must be within 0 and 1"),
        (
            ReplayTrigger(KEYS, Uniform(16), ratio=-1, after=64),
            {},
            "ratio must be a positive number",
        ),
        (
            ReplayTrigger(KEYS, Uniform(16), after=64, slack=5.0),
            {},
            "slack=5 can never be kept.*24",
        ),
        (ReplayTrigger(KEYS, Uniform(16), after=9_999), {}, "the blocks hold 5120 transitions"),
        (
            ReplayTrigger(KEYS, Sequences(4, 640), after=64),
            {},
            "sequences of 640 rows.*need a capacity above that, not 640: raise capacity",
        ),
        (
            ReplayTrigger(KEYS, Sequences(4, 600, burn_in=40), after=64),
            {},
            "sequences of 640 rows, burn-in included.*lower length or burn_in",
        ),
        (
            ReplayTrigger(KEYS, Sequences(4, 10, burn_in=-1), after=64),
            {},
            "burn_in must be a whole number of at least 0, not -1",
        ),
        (
            ReplayTrigger(KEYS, Sequences(4, 10), after=64),
            {"state_keys": ("memory",)},
            "sequences begin with the policy's state: add 'memory' to the keys of this trigger",
        ),
        (ReplayTrigger(KEYS, Uniform(16), after=64), {"on_full": "wait"}, "overwrite"),
        (
            ReplayTrigger(KEYS, Prioritised(16, beta=(0.4, 1.2)), after=64),
            {},
            r"beta must be within 0 and 1, not \(0.4, 1.2\)",
        ),
        (
            ReplayTrigger(KEYS, Prioritised(16, initial="priorities"), after=64),
            {},
            "reads the data key 'priorities', which the actor does not write",
        ),
        (
            ReplayTrigger(KEYS, Prioritised(16, initial="observations"), after=64),
            {},
            "initial='observations': a first priority is one float",
        ),
        (
            ReplayTrigger("observations", Uniform(16), after=64),
            {"data_keys": (DataKey("observations", (4,)),)},
            "drawing reads the data key 'rewards', which the actor does not write",
        ),
        *(
            (
                ReplayTrigger(KEYS, sample, after=64),
                {"data_keys": tuple(DataKey(name) for name in READ if name != missing)},
                "needs the data keys 'valid' and 'ages'.*stores the last observation of an episode",
            )
            for missing in ("valid", "ages")
            for sample in (Uniform(16), Prioritised(16), Sequences(4, 10))
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_change(
    trigger: ReplayTrigger, changes: dict[str, Any], found: str
) -> None:
    assert re.search(found, words(trigger, **changes))


def test_a_sample_that_is_no_pattern_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"e.g. Uniform\(256\), not 256"):
        ReplayTrigger(KEYS, 256)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Expected `int`, got `str` - at `\$.batch`"):
        ReplayTrigger(KEYS, Uniform("256"))  # type: ignore[arg-type]


def test_it_explains_where_first_priorities_come_from() -> None:
    trigger = ReplayTrigger(KEYS, Prioritised(16, initial="surprise"))
    assert trigger.words().startswith("16 prioritised draws (first by surprise) of observations")


def test_it_explains_itself() -> None:
    replay, rounds = completed(max_lag=9)
    assert replay.words() == (
        "16 uniform draws of observations, rewards, at most 9 versions old; each row 2 times, "
        "within 80 draws, once 64 are there"
    )
    assert rounds.words() == "the end of its last round, up to 2 rounds ahead"


# -- the rows of a policy --------------------------------------------------------------------------

ROW = tuple(DataKey(name, (4,) * (name == "observations")) for name in READ)
PARTS = {
    "learner": Part("learner", ROW, envs=1),
    "other": Part("other", ROW, envs=3, versions="policy_version.other"),
}
"""Of the four agents of an actor the first policy plays one, and the other three."""


def of_policies(**changes: Any) -> tuple[Plan, Table]:
    """A plan and its table: each of two learners draws the rows of its policy, in its own ratio."""
    given = {"sample": Uniform(16), "ratio": 2.0, "after": 2 * ROUND} | changes
    keys = {name: tuple(stored_name(name, key) for key in KEYS) for name in PARTS}
    wired: Table = {
        "learner.update": ReplayTrigger(keys["learner"], Uniform(16), ratio=1.0, after=16),
        "other.update": ReplayTrigger(keys["other"], **given),
        "actors.sample": RoundTrigger(),
    }
    stored = [key for part in PARTS.values() for key in part.stored]
    weights = ObjectSpec.sized("model_param", [ArraySpec("params", (3,))], 5)
    plan = new_plan(
        wired, capacity=640, on_full="overwrite", parts=PARTS, envs=4,
        data_keys=(*stored, DataKey("policy_version.other", (), "int64", per_env=False)),
        beside=(Beside("other", 2, (weights,)),),
        methods={"actors": ("sample",), "learner": ("update",), "other": ("update",)},
    )  # fmt: skip
    return plan, wired


def test_a_policy_draws_its_own_rows_by_the_names_that_its_learner_has() -> None:
    plan, wired = of_policies()
    assert faults(plan, wired) == []
    drawn = {each.target: each.keys for each in plan.draws}
    assert drawn == {"learner.update": KEYS, "other.update": KEYS}


def test_each_policy_counts_the_transitions_of_its_own_agents() -> None:
    """A row has one of the first policy and three of the other; actors keep to both limits."""
    _, wired = of_policies()
    first, other, rounds = wired.values()
    assert isinstance(rounds, RoundTrigger)
    asked = len(each_round(feed(rounds, joined(4))))
    (own, others) = (each.limit for each in (first, other))  # type: ignore[union-attr]
    assert (own.granted, others.granted) == (16 * asked, 3 * 16 * asked)
    for number, trigger in enumerate((first, other)):
        keys = [stored_name(["learner", "other"][number], key) for key in KEYS]
        feed(trigger, [Published(["model_param", "other/model_param"][number], 0)])
        fired = feed(trigger, [arrived(0, 16, keys=keys)])
        assert len(fired) == [2, 0][number], "16 are enough for one, 48 are not for the other"
    assert len(feed(other, [arrived(1, 16, keys=[f"other/{key}" for key in KEYS])])) == 2


def test_what_a_policy_never_gathers_is_told_in_its_own_numbers() -> None:
    """Blocks hold 640 rows of each actor, three transitions in a row."""
    held, ends = faults(*of_policies(after=640 * 3 * 4 + 1))
    assert held.startswith("triggers['other.update']: after=7681, but the blocks hold 7680")
    assert "the run ends after total_steps=10000, before the first update" in ends
    assert len(faults(*of_policies(after=7_501))) == 1, "of 10,000 steps 7,500 are of its agents"
    assert faults(*of_policies(after=7_500)) == []
