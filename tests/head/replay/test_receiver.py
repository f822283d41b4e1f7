"""What a receiver refuses: anything that contradicts itself, the workload or what was agreed."""

from __future__ import annotations

import msgspec
import pytest

from artos.errors import BadMessage
from artos.protocol.data import Answered, Chunk, Greet
from head.replay.receiver import ActorState, Receiver

ROW_BYTES = {"frames": 100, "rewards": 4}
SIZES = (1000, 40)
CHUNK = Chunk(3, 2, 20, 30, ("frames", "rewards"), SIZES, (False, False))
ME = "node"


def receiver(**written: int) -> tuple[Receiver, list[str]]:
    counted: list[str] = []
    state = ActorState(2, {"frames": 20, "rewards": 20} | written, 40)
    made = Receiver(7, ROW_BYTES, {3: state}.get, counted.append)
    made.greet(ME, Greet("node", 7, {}))
    return made, counted


def test_new_rows_are_taken() -> None:
    assert receiver()[0].admit(ME, CHUNK, SIZES) == range(20, 30)


@pytest.mark.parametrize(("written", "rows"), [(25, range(25, 30)), (30, range(0)), (19, range(0))])
def test_each_row_is_taken_once_and_none_is_left_out(written: int, rows: range) -> None:
    made, _ = receiver(frames=written, rewards=written)
    assert made.admit(ME, CHUNK, SIZES) == rows


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"term": 1}, "stale"),
        ({"start": 21, "raw": (900, 36)}, "gap"),
        ({"start": 10, "stop": 20}, "repeated"),
    ],
)
def test_what_is_not_taken_is_counted(change: dict, why: str) -> None:
    made, counted = receiver()
    chunk = msgspec.structs.replace(CHUNK, **change)
    assert made.admit(ME, chunk, chunk.raw) == range(0)
    assert counted == [why]


def test_who_sends_rows_of_an_actor_that_lives_elsewhere_is_told() -> None:
    made, _ = receiver()
    assert made.outdated(CHUNK) is None
    news = made.outdated(msgspec.structs.replace(CHUNK, term=1))
    assert news is not None
    assert (news.actor, news.term) == (3, 2)


def test_nobody_ships_rows_of_an_actor_of_another_node() -> None:
    """Nor gets to hear how far they are, though it says that the actor lives there."""
    made, _ = receiver()
    made.set_nodes({3: ME})
    assert made.greet("thief", Greet("thief", 7, {3: 2})) == []
    assert made.greet(ME, Greet(ME, 7, {3: 2})) == [made.rows_taken(3)]
    with pytest.raises(BadMessage, match="another node"):
        made.admit("thief", CHUNK, SIZES)
    assert made.node_of(3) == ME
    assert made.admit(ME, CHUNK, SIZES) == range(20, 30)


def test_where_an_actor_lived_before_nobody_is_told_any_more() -> None:
    made, _ = receiver()
    made.greet(ME, Greet(ME, 7, {3: 2}))
    for node in ("", "another"):
        made.set_nodes({3: node})
        assert made.node_of(3) is None
        with pytest.raises(BadMessage, match="another node"):
            made.admit(ME, CHUNK, SIZES)
    (news,) = made.greet(ME, Greet(ME, 7, {3: 1}))  # that its place is an old one
    assert (news.term, made.node_of(3)) == (2, None)


def test_what_is_said_of_one_actor_changes_nothing_for_another() -> None:
    made, _ = receiver()
    made.set_nodes({3: ME})
    made.greet(ME, Greet(ME, 7, {3: 2}))
    made.set_nodes({4: "another"})
    assert made.greet("thief", Greet("thief", 7, {3: 2})) == []
    assert made.node_of(3) == ME
    made.set_nodes({3: ME})
    assert made.node_of(3) == ME, "said again"


def test_nothing_is_taken_of_who_has_not_greeted() -> None:
    made, counted = receiver()
    assert made.admit("another", CHUNK, SIZES) == range(0)
    assert counted == ["stale"]


def test_rows_wait_for_answers_that_they_were_made_from() -> None:
    """It is as if rows before them were missing."""
    counted: list[str] = []
    state = ActorState(2, {"frames": 20, "rewards": 20}, 40)
    here: dict[tuple[str, str], int] = {}

    def has(who: str, answered: Answered) -> bool:
        return all(here.get((who, process), 0) >= most for _, process, most in answered)

    made = Receiver(7, ROW_BYTES, {3: state}.get, counted.append, has)
    made.greet(ME, Greet("node", 7, {}))
    chunk = msgspec.structs.replace(CHUNK, answered=((0, "0-0.f", 9), (1, "1-4.f", 5)))
    for process, taken in (("0-0.f", 8), ("1-4.f", 5), ("0-0.f", 9)):
        here["another", process] = 99
        assert made.admit(ME, chunk, SIZES) == range(0)
        here[ME, process] = taken
    assert made.admit(ME, chunk, SIZES) == range(20, 30)
    assert counted == ["gap"] * 3


@pytest.mark.parametrize(
    ("change", "sizes", "says"),
    [
        ({"actor": 4}, SIZES, "the run has no actor 4"),
        ({"keys": ()}, SIZES, "keys missing"),
        ({"keys": ("frames", "frames")}, SIZES, "keys"),
        ({"keys": ("frames", "values")}, SIZES, "values"),
        ({"start": 30}, SIZES, "rows 30 to 30"),
        ({"start": -1}, SIZES, "rows -1"),
        ({"raw": (1000,)}, SIZES, "2 parts for 2 keys"),
        ({"packed": (False,)}, SIZES, "2 parts"),
        ({}, (1000,), "1 parts for 2 keys"),
        ({}, (1000, 39), "39 of 40 bytes of key 'rewards'"),
        ({"raw": (1001, 40)}, (1001, 40), "'frames'"),
        ({"term": 3}, SIZES, "term 3 has not begun"),
        ({"stop": 41, "raw": (2100, 84)}, (2100, 84), "room up to 40"),
    ],
)
def test_contradictions_are_refused(change: dict, sizes: tuple[int, ...], says: str) -> None:
    made, counted = receiver()
    with pytest.raises(BadMessage, match=says):
        made.admit(ME, msgspec.structs.replace(CHUNK, **change), sizes)
    assert counted == []


def test_compressed_frames_may_have_any_size() -> None:
    packed = msgspec.structs.replace(CHUNK, packed=(True, False))
    assert receiver()[0].admit(ME, packed, (17, 40)) == range(20, 30)


def test_keys_that_did_not_come_together_do_not_go_on_together() -> None:
    made, _ = receiver(rewards=25)
    with pytest.raises(BadMessage, match="separately"):
        made.admit(ME, CHUNK, SIZES)


def test_an_agent_of_another_life_of_the_run_is_refused() -> None:
    with pytest.raises(BadMessage, match="epoch 7"):
        receiver()[0].greet(ME, Greet("node", 6, {3: 2}))


def test_a_greeting_is_answered_for_the_actors_of_this_process() -> None:
    (news,) = receiver()[0].greet(ME, Greet("node", 7, {3: 2, 4: 1}, 12))
    assert (news.actor, news.term, news.room, news.answers) == (3, 2, 40, 12)
    assert news.written == {"frames": 20, "rewards": 20}


def test_news_go_to_the_node_that_has_the_actor_now() -> None:
    state = {3: ActorState(2, {"frames": 20}, 40)}
    made = Receiver(7, ROW_BYTES, state.get, lambda why: None)
    assert made.node_of(3) is None
    made.greet("here", Greet("here", 7, {3: 2}))
    (news,) = made.greet("former", Greet("former", 7, {3: 1}))
    assert news.term == 2
    assert made.node_of(3) == "here"


def test_more_room_is_news_once() -> None:
    state = {3: ActorState(2, {"frames": 20}, 40)}
    made = Receiver(7, ROW_BYTES, state.get, lambda why: None)
    assert made.with_more_room() == []
    made.greet(ME, Greet("node", 7, {3: 2}))
    assert made.with_more_room() == []
    state[3] = ActorState(2, {"frames": 20}, 50)
    made.greet("former", Greet("former", 7, {3: 1}))
    assert made.with_more_room() == [3], "who had it once may know, but not its home"
    assert made.rows_taken(3).room == 50
    assert made.with_more_room() == []


@pytest.mark.parametrize(
    ("nodes", "mib"), [(0, 8), (1, 8), (32, 8), (33, 256 / 33), (64, 4), (256, 1), (1000, 1)]
)
def test_nodes_share_what_may_be_on_its_way_within_bounds(nodes: int, mib: float) -> None:
    made = Receiver(7, ROW_BYTES, {}.get, lambda why: None)
    for _ in range(2):
        for number in range(nodes):
            made.greet(f"node {number}", Greet("node", 7, {}))
        assert made.credit == int(mib * (1 << 20)), "who greets again is no other node"


@pytest.mark.parametrize(
    "change",
    [
        {"start": 0, "raw": (3000, 120)},
        {"stop": 40, "raw": (2000, 80)},
        {"keys": ("frames",), "raw": (1000,), "packed": (False,)},
    ],
)
def test_the_first_row_the_last_room_and_a_single_key_are_no_faults(change: dict) -> None:
    made, counted = receiver()
    chunk = msgspec.structs.replace(CHUNK, **change)
    assert made.admit(ME, chunk, chunk.raw) == range(20, chunk.stop)
    assert counted == []


def test_all_faults_of_a_chunk_are_told_at_once() -> None:
    made, _ = receiver()
    with pytest.raises(BadMessage) as caught:
        made.admit(ME, msgspec.structs.replace(CHUNK, raw=(1001, 41)), SIZES)
    says = "chunk of actor 3: 1000 of 1001 bytes of key 'frames'; 40 of 41 bytes of key 'rewards'"
    assert says in str(caught.value)
    with pytest.raises(BadMessage, match="keys frames, values"):
        made.admit(ME, msgspec.structs.replace(CHUNK, keys=("frames", "values")), SIZES)
    apart, _ = receiver(rewards=25)
    with pytest.raises(BadMessage, match="keys frames, rewards have come"):
        apart.admit(ME, CHUNK, SIZES)


def test_news_say_whom_they_are_about_and_what_may_be_on_its_way() -> None:
    made, _ = receiver()
    made.greet(ME, Greet("node", 7, {3: 2}))
    for news in (made.rows_taken(3), made.outdated(msgspec.structs.replace(CHUNK, term=1))):
        assert news is not None
        assert (news.actor, news.credit, news.answers) == (3, made.credit, 0), "nobody greeted"
    assert made.outdated(msgspec.structs.replace(CHUNK, actor=9)) is None
    assert made.outdated(msgspec.structs.replace(CHUNK, term=3)) is None


def test_an_actor_that_is_gone_has_no_more_room() -> None:
    state = {3: ActorState(2, {"frames": 20}, 40), 4: ActorState(1, {"frames": 0}, 10)}
    made = Receiver(7, ROW_BYTES, state.get, lambda why: None)
    made.greet(ME, Greet("node", 7, {3: 2, 4: 1}))
    state[4] = ActorState(1, {"frames": 0}, 11)
    del state[3]
    assert made.with_more_room() == [4]
