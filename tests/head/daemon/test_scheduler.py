"""Queue, places and executors of runs, decided without a process: what happens after what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world_events import QUOTAS, events, happen
from worlds import World

from artos.errors import Refused
from artos.protocol.control import Leave
from head.daemon.admission import Admission
from head.daemon.effects import Effect
from head.daemon.quotas import Quotas
from head.daemon.rooms import Rooms
from head.daemon.roster import Room, Roster
from head.daemon.run import Run
from head.daemon.runs import Runs
from head.daemon.scheduler import MOST_IN_A_ROW, Scheduler

# -- the queue -------------------------------------------------------------------------------------


def test_without_a_worker_one_run_begins_and_waits_for_one(world: World) -> None:
    """So what is wrong with it shows at once; others wait in the queue."""
    world.begin("r1")
    world.submit("r2")
    r1, r2 = world.scheduler.runs.values()
    assert (r1.state, r2.state) == ("running", "queued")
    for run in (r1, r2):
        assert "artos worker" in world.scheduler.waits.of(run)
    world.join("w1")
    assert Counter(r1.places.values()) == {"w1": 4}
    assert world.scheduler.waits.of(r1) == ""
    assert r2.state == "starting"


def test_no_more_runs_than_slots_go_on_at_once(world: World) -> None:
    world.join("w1", slots=2)
    world.begin("r1", "r2")
    world.submit("r3")
    assert world.scheduler.runs["r3"].state == "queued"
    assert "slot" in world.scheduler.waits.of(world.scheduler.runs["r3"])
    slots = {run: executor.slots for run, executor in world.executors["w1"].items()}
    assert slots == {"r1": 2, "r2": 2}, "they take turns on all of them"
    world.ended("r1", 0)
    assert world.scheduler.runs["r3"].state == "starting"


def test_the_order_of_submission_is_that_of_starting(world: World) -> None:
    world.join("w1", slots=1)
    for name in ("r1", "r2", "r3"):
        world.submit(name)
    for name in ("r1", "r2", "r3"):
        assert [*world.processes] == [name]
        world.up(name)
        world.ended(name, 0)
    assert [name for name, _, _ in world.began] == ["r1", "r2", "r3"]


def test_a_name_is_taken_until_its_run_is_over(world: World) -> None:
    world.begin("r1")
    with pytest.raises(Refused, match="r1 is running"):
        world.submit("r1")
    world.ended("r1", 130)
    assert world.submit("r1", resume=True).epoch == 2, "old executors are told apart from new ones"


def test_stopped_in_the_queue_is_over_at_once(world: World) -> None:
    world.begin("r1")
    run = world.submit("r2")
    world.scheduler.stop(run)
    assert (run.state, run.outcome) == ("done", "interrupted")


# -- how a run ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state", "outcome"),
    [(0, "done", "done"), (1, "failed", "failed"), (2, "failed", "refused"),
     (130, "done", "interrupted"), (77, "failed", "failed")],
)  # fmt: skip
def test_the_exit_status_is_the_outcome(status, state, outcome, world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.ended("r1", status, "its words")
    run = world.scheduler.runs["r1"]
    why = "" if status in (0, 130) else "its words"
    assert (run.state, run.outcome, run.why) == (state, outcome, why)
    assert world.executors["w1"] == {}


def test_its_last_words_count_more_than_its_status(world: World) -> None:
    world.begin("r1")
    news = msgspec.structs.replace(_news("r1"), state="refused", waits_for="why")
    world.scheduler.run_news(news, world.clock.now())
    world.ended("r1", None)
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome, run.why) == ("failed", "refused", "why")


def _news(run: str):
    from artos.protocol.control import RunNews  # noqa: PLC0415

    return RunNews(run, "running")


@pytest.mark.parametrize("status", [-9, -11, None])
def test_a_run_that_was_killed_goes_on_from_its_checkpoint(status, world: World) -> None:
    world.join("w1")
    world.begin("r1")
    before = world.scheduler.runs["r1"].places
    world.ended("r1", status)
    assert world.began[-1] == ("r1", 2, True)
    assert world.executors["w1"] == {}, "executors of the old epoch are closed"
    world.up("r1")
    assert world.scheduler.runs["r1"].places == before, "actors stay where their images are"
    assert world.executors["w1"]["r1"].epoch == 2


def test_it_is_not_tried_for_ever(world: World) -> None:
    world.begin("r1")
    for _ in range(MOST_IN_A_ROW):
        world.ended("r1", -9)
    assert world.scheduler.runs["r1"].active
    world.ended("r1", -9, "killed by signal 9")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome) == ("failed", "failed")
    assert "killed by signal 9" in run.why
    assert "4 times" in run.why


def test_progress_in_between_is_forgiven(world: World) -> None:
    world.begin("r1")
    for steps in range(10, 60, 10):
        world.ended("r1", -9)
        world.up("r1")
        world.news("r1", steps=steps)
    assert world.scheduler.runs["r1"].active
    for _ in range(MOST_IN_A_ROW + 1):  # it starts from the checkpoint and never gets further
        assert world.scheduler.runs["r1"].active
        world.ended("r1", -9)
        if world.scheduler.runs["r1"].active:
            world.up("r1")
            world.news("r1", steps=40)
    assert world.scheduler.runs["r1"].over


def test_killed_while_stopping_is_over(world: World) -> None:
    world.begin("r1")
    world.scheduler.stop(world.scheduler.runs["r1"])
    world.ended("r1", -9)
    assert world.scheduler.runs["r1"].outcome == "interrupted"


def test_a_process_of_an_old_epoch_is_not_believed(world: World) -> None:
    world.begin("r1")
    old = world.run_up(world.scheduler.runs["r1"])
    world.ended("r1", -9)
    assert not world.scheduler.run_up(old)
    assert world.scheduler.runs["r1"].up is None


# -- nodes that come and go ------------------------------------------------------------------------


def test_actors_of_a_node_that_is_gone_live_elsewhere(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    before = dict(world.places["r1"])
    assert Counter(before.values()) == {"w1": 2, "w2": 2}
    world.silence("w1")
    run, placed = world.told[-1]
    assert (run, placed.gone) == ("r1", ("w1",))
    assert set(placed.actors.values()) == {"w2"}
    assert all(placed.actors[a] == n for a, n in before.items() if n == "w2"), "nobody else moved"


def test_with_nowhere_to_go_a_run_waits(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.silence("w1")
    assert world.places["r1"] == {}
    run = world.scheduler.runs["r1"]
    assert "worker" in world.scheduler.waits.of(run)
    world.join("w2")
    assert set(world.places["r1"].values()) == {"w2"}
    assert world.told[-1][1].gone == ()


def test_a_node_that_comes_back_has_its_old_executors_closed(world: World) -> None:
    """Its actors live elsewhere by now: what it still runs is stale."""
    world.actors = 2
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.silence("w1")
    assert "r1" in world.executors["w1"], "nobody could tell it"
    world.join("w1")
    assert world.executors["w1"] == {}


def test_a_lone_node_that_comes_back_begins_anew(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.silence("w1")
    orders = []
    world._carry_out = lambda effects, then=world._carry_out: (
        orders.extend(effects),
        then(effects),
    )
    world.join("w1")
    kinds = [type(effect.message).__name__ for effect in orders if hasattr(effect, "node")]
    assert kinds == ["Unassign", "Assign"], "the stale executor first, then a new one"


def test_a_drained_node_keeps_its_executors_until_they_have_moved(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.drain("w1")
    assert set(world.places["r1"].values()) == {"w2"}
    assert world.told[-1][1].gone == ()
    assert "r1" in world.executors["w1"], "rounds end, rows are sent"
    world.executor_ended("w1", "r1", why="")
    world.clock.advance(100)
    world.roster.heard({node.peer: 0.0 for node in world.roster})
    world.turn()
    assert world.executors["w1"] == {}
    world.submit("r2")
    world.up("r2")
    assert set(world.places["r2"].values()) == {"w2"}


def test_an_executor_is_closed_once_its_actors_have_left(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.news("r1", nodes={"w1": [], "w2": [1, 3]})  # before they have begun there
    world.turn()
    assert "r1" in world.executors["w1"]
    world.drain("w1")
    world.news("r1", nodes={"w1": [0], "w2": [1, 2, 3]})
    world.turn()
    assert "r1" in world.executors["w1"]
    assert not world.news("r1", nodes={"w1": [0], "w2": [1, 2, 3]})
    assert world.news("r1", nodes={"w1": [], "w2": [0, 1, 2, 3]}), "it is acted on at once"
    world.turn()
    assert world.executors["w1"] == {}
    assert world.ordered[-1] == Leave("drained"), "nothing is waited for"


def test_a_node_that_is_not_drained_any_more_relieves_the_others(world: World) -> None:
    world.actors = 2
    world.join("w1", slots=1)
    world.join("w2", slots=1)
    world.begin("r1")
    world.drain("w1")
    assert set(world.places["r1"].values()) == {"w2"}
    assert not world.told[-1][1].relief, "its node may be gone soon"
    world.undrain("w1")
    assert set(world.places["r1"].values()) == {"w1", "w2"}
    assert world.told[-1][1].relief


def test_actors_are_placed_where_their_labels_are(world: World) -> None:
    world.actors = 2
    world.join("w1", slots=4, labels=("room=a",))
    run = world.submit("r1", where=("avx512", "room=b"))
    assert run.state == "queued"
    assert world.scheduler.waits.of(run) == "a worker with the labels avx512, room=b"
    world.join("w2", slots=1, labels=("room=b", "avx512"))
    assert world.up("r1")
    assert set(run.places.values()) == {"w2"}, "they share its slot"
    world.join("w3", slots=2, labels=("room=b",))
    assert set(run.places.values()) == {"w2"}
    world.join("w4", slots=1, labels=("gpu", "room=b", "avx512"))
    assert set(run.places.values()) == {"w2", "w4"}
    world.silence("w2")
    world.silence("w4")
    assert not run.places
    assert (
        world.scheduler.waits.of(run) == "a worker with a free slot and the labels avx512, room=b"
    )


def test_who_waits_for_a_label_is_in_nobodys_way(world: World) -> None:
    world.join("w1", slots=1)
    waiting = [world.submit(f"r{number}", where=("gpu",)) for number in range(3)]
    world.begin("r9")
    assert set(world.places["r9"].values()) == {"w1"}
    assert {run.state for run in waiting} == {"queued"}


def test_nor_is_who_waits_for_room_where_its_label_is(world: World) -> None:
    world.actors = 1
    world.join("w1", slots=1, labels=("gpu",))
    world.begin("r1")
    world.join("w2", slots=1)
    labelled = world.submit("r2", where=("gpu",))
    assert labelled.state == "queued"
    assert world.scheduler.waits.of(labelled) == "a worker with a free slot and the label gpu"
    world.begin("r3")
    assert set(world.places["r3"].values()) == {"w2"}
    world.join("w3", slots=1, labels=("gpu",))
    assert world.up("r2")
    assert set(world.places["r2"].values()) == {"w3"}


def test_a_head_that_starts_again_knows_labels(world: World) -> None:
    world.join("w1", labels=("avx512",))
    (known,) = [node.known for node in world.roster]
    again = Roster("", world.clock)
    again.expect([known])
    assert [node.labels for node in again] == [("avx512",)]


def test_actors_leave_a_node_that_comes_back_without_their_label(world: World) -> None:
    world.join("w1", labels=("avx512",))
    world.submit("r1", where=("avx512",))
    world.up("r1")
    world.join("w1")
    assert world.places["r1"] == {}
    assert world.told[-1][1].why == "w1 has other labels now"
    world.join("w2", labels=("avx512",))
    assert set(world.places["r1"].values()) == {"w2"}


def test_a_drained_node_is_not_waited_for_for_ever(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.drain("w1")
    world.clock.advance(61)
    world.roster.heard({node.peer: 0.0 for node in world.roster})
    world.turn()
    assert world.executors["w1"] == {}


def test_a_node_takes_no_more_runs_than_it_has_slots(world: World) -> None:
    """Those that lose their node wait for one where each of them gets a slot."""
    world.actors = 1
    world.join("w1", slots=1)
    world.begin("r1")
    world.join("w2", slots=2)
    world.begin("r2", "r3")
    world.silence("w2")
    assert set(world.places["r1"].values()) == {"w1"}
    assert world.places["r2"] == world.places["r3"] == {}
    waiting = world.scheduler.waits.of(world.scheduler.runs["r2"])
    assert waiting == "a worker with a free slot"
    world.check()


def test_who_has_no_process_has_no_place_on_a_node_that_is_gone(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.ended("r1", -9)
    world.silence("w1")
    world.check()
    world.join("w1")
    world.up("r1")
    assert set(world.places["r1"].values()) == {"w1"}


def test_a_new_node_takes_nobody_away_who_has_a_slot(world: World) -> None:
    world.join("w1", slots=4)
    world.begin("r1")
    told = len(world.told)
    world.join("w2")
    assert set(world.places["r1"].values()) == {"w1"}
    assert len(world.told) == told


def test_a_new_node_takes_those_that_have_no_slot_of_their_own(world: World) -> None:
    world.join("w1", slots=2)
    world.begin("r1")
    assert [*world.places["r1"].values()] == ["w1"] * 4
    world.join("w2", slots=2)
    assert Counter(world.places["r1"].values()) == {"w1": 2, "w2": 2}
    assert world.told[-1][1].why == "there is room now"
    told = len(world.told)
    world.join("w3", slots=2)
    assert len(world.told) == told, "all of them have one"
    world.check()


def test_of_many_runs_without_a_place_only_those_that_get_one_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        world.join(f"w{n}", slots=2)
    names = [f"r{n}" for n in range(40)]
    for name in names:
        world.submit(name)
    for name in names:
        world.up(name)
    short = [name for name in names if not world.places.get(name)]
    assert len(short) == 30, "each of the others is on four nodes"
    looked_at: list[str] = []
    rooms = Rooms.of
    monkeypatch.setattr(
        Rooms, "of", lambda self, run, n: looked_at.append(run.name) or rooms(self, run, n)
    )
    world.ended("r0", 0)
    assert looked_at == short[:1]
    assert len(world.places[short[0]]) == 4


# -- a head that was killed ------------------------------------------------------------------------


def test_what_is_stored_is_what_goes_on(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.submit("r2")
    state = world.saved()
    after = World(
        world.clock, Scheduler(state.runs), executors=world.executors, processes=world.processes
    )
    after.expect(state.nodes)
    after.turn()
    assert after.ordered == [], "nobody is there yet to be told"
    assert after.began == []
    assert after.told == [], "nobody moves"
    after.join("w1")
    after.join("w2")
    assert after.told == []
    after.check()
    after.silence("w2")
    assert set(after.places["r1"].values()) == {"w1"}


# -- whatever happens ------------------------------------------------------------------------------


@settings(max_examples=200)
@given(events())
def test_places_executors_and_slots_always_fit_together(happened) -> None:
    world = World()
    for number, (event, which) in enumerate(happened):
        world = happen(world, event, which, number)
        world.check()
    effects = world.scheduler.turn(world.clock.now())
    assert effects == [], "a second turn finds nothing to do"


class LinearRuns(Runs):
    def to_place(self, moved: Iterable[str], room: Callable[[], bool]) -> Iterator[Run]:
        names, up = {*moved}, [run for run in self.by_name.values() if run.up is not None]
        return iter([run for run in up if run.name in names or len(run.places) != run.up.actors])


class LinearAdmission(Admission):
    def _room(self) -> int:
        runs = self._runs.by_name.values()
        unplaced = sum(run.active and not run.places for run in runs)
        usable = [each.node for each in self._nodes._entries.values() if each.node.usable]
        on = self._nodes.actors_on
        free = sum(max(0, node.most_runs - len(on(node.name))) for node in usable)
        return free - unplaced if usable else 1 - sum(run.active for run in runs)


class Linear(Scheduler):
    """Looks at all runs and all nodes in each turn, as the rule is written down."""

    def turn(self, now: float, *, hold: str = "") -> list[Effect]:
        for node in [*self._nodes._entries]:
            self._look_at(node)
            self._nodes.changed(node)
        for run in self.runs.values():
            self._changed(run)
        self.all_runs.__class__, self._admission.__class__ = LinearRuns, LinearAdmission
        return super().turn(now, hold=hold)

    def _rooms(self, run: Run, actors: int) -> list[Room]:
        rooms = []
        for node in [each.node for each in self._nodes._entries.values() if each.node.usable]:
            there = self.actors_on(node.name)
            own = there.get(run.name, 0)
            given_up = self.executors.why_given_up(run.name, node.name)
            if (own or len(there) < node.most_runs) and not given_up:
                rooms.append(Room(node.name, node.slots, sum(there.values()) - own))
        if not self.books:
            return rooms
        keeps = {room.name for room in rooms} & {*run.places.values()}
        most = len(keeps) + self.books.more_nodes(run, keeps, len(rooms))
        best = sorted(rooms, key=lambda room: (room.name not in keeps, room.taken - room.slots))
        chosen = {room.name for room in best[:most]}
        return [room for room in rooms if room.name in chosen]


@settings(max_examples=200)
@given(events(min_size=15, max_size=60), st.sampled_from([Quotas(), QUOTAS]))
def test_whoever_looks_at_everything_decides_the_same(happened, quotas) -> None:
    one, other = (World(scheduler=each(quotas=quotas)) for each in (Scheduler, Linear))
    for number, (event, which) in enumerate(happened):
        one, other = (happen(each, event, which, number) for each in (one, other))
        assert (one.began, one.told, one.ordered) == (other.began, other.told, other.ordered)
        assert one.scheduler.runs == other.scheduler.runs
        for run in one.scheduler.runs.values():
            assert one.scheduler.waits.of(run) == other.scheduler.waits.of(run)
