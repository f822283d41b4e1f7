"""Which few nodes are looked at for a run's actors: those that a look at all of them chooses."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from head.daemon.nodes import Nodes
from head.daemon.ranking import Ranking
from head.daemon.roster import POLICIES, Node, Room, place


def crowded(random: Random) -> tuple[Nodes, dict[str, Node], dict[str, dict[int, str]]]:
    """Some nodes, some of them leaving, after runs have come, moved and gone."""
    nodes = Nodes()
    there = {
        f"n{n}": Node(f"n{n}", random.randint(1, 6), 0.0, runs_per_slot=random.choice((1, 1, 2)))
        for n in range(12)
    }
    for node in there.values():
        nodes.put(node)
    places: dict[str, dict[int, str]] = {}
    for _ in range(40):
        run = f"r{random.randrange(9)}"
        before = set(places.get(run, {}).values())
        actors = random.choice((0, 1, 3, 8))
        places[run] = {actor: random.choice([*there]) for actor in range(actors)}
        nodes.settle(run, places[run], before)
        node = there[random.choice([*there])]
        node.leaves = random.choice(("", "", "drained"))
        nodes.changed(node.name)
    return nodes, there, places


@pytest.mark.parametrize("policy", POLICIES)
def test_places_among_the_candidates_are_those_among_all(policy: str) -> None:
    seen = 0
    for seed in range(200):
        random = Random(seed)
        nodes, there, places = crowded(random)
        given_up = set(random.sample([*there], 3)).__contains__
        actors, rooms = random.choice((1, 2, 5, 30)), []
        for node in there.values():
            taken = Counter(at for run in places.values() for at in run.values() if at == node.name)
            runs = sum(node.name in run.values() for run in places.values())
            if node.usable and runs < node.most_runs and not given_up(node.name):
                rooms.append(Room(node.name, node.slots, taken[node.name]))
        few = nodes.rooms(nodes.candidates(actors, policy, given_up), "new")
        assert place(actors, {}, few, policy) == place(actors, {}, rooms, policy)
        emptiest = sorted(rooms, key=lambda room: room.taken - room.slots)
        assert nodes.emptiest(4, given_up) == [room.name for room in emptiest[:4]]
        seen += len(rooms) > len(few) > 0
    assert seen > 50, "or all nodes were candidates"


def test_room_is_counted_as_nodes_and_runs_come_and_go() -> None:
    for seed in range(50):
        nodes, there, places = crowded(Random(seed))
        usable = [node for node in there.values() if node.usable]
        free = (
            n.most_runs - sum(n.name in run.values() for run in places.values()) for n in usable
        )
        assert nodes.free == sum(max(0, each) for each in free)
        assert (nodes.usable, nodes.slots) == (len(usable), sum(node.slots for node in usable))
        for name in there:
            nodes.drop(name)
        assert (nodes.free, nodes.usable, nodes.slots, nodes.with_room) == (0, 0, 0, 0)


def test_a_name_that_moves_to_and_fro_is_found_once_and_takes_no_room() -> None:
    ranking = Ranking()
    for n in range(1_000):
        ranking.put("a", (n % 2, 1))
        ranking.put("b", (0.5, 2))
    assert ranking.lowest(5, lambda name: False) == ["b", "a"]
    assert ranking.lowest(5, lambda name: name == "b") == ["a"]
    assert len(ranking._heap) < 200
    ranking.drop("a")
    assert ranking.lowest(5, lambda name: False) == ["b"]
