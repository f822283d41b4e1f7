"""How many threads a learner uses beside others: as many as can run."""

from __future__ import annotations

from artos.runtime.shared_cores import SharedCores, waited_for_cpus


class Machine:
    """Its threads wait for a share of each update."""

    def __init__(self, threads: int = 2) -> None:
        self.share, self.waited, self.used = 0.0, 0.0, list[int]()
        self.cores = SharedCores(threads, self.used.append, lambda: self.waited)

    def updates(self, number: int, seconds: float = 1.0) -> None:
        for _ in range(number):
            self.waited += self.share * seconds
            self.cores.updated(seconds)


def test_alone_all_threads_are_used() -> None:
    machine = Machine()
    machine.share = 0.1
    machine.updates(100)
    assert machine.used == []


def test_beside_others_one_is_used_until_they_are_gone() -> None:
    machine = Machine()
    machine.share = 0.5
    machine.updates(2)
    assert machine.used == []
    machine.updates(1)
    assert machine.used == [1]
    machine.share = 0.0
    machine.updates(20)
    assert machine.used == [1, 2]
    machine.updates(100)
    assert machine.used == [1, 2]


def test_where_nothing_is_free_it_takes_fewer_updates() -> None:
    machine = Machine()
    machine.share = 1.5
    machine.updates(2)
    assert machine.used == [1]


def test_a_moment_changes_nothing() -> None:
    machine = Machine()
    for _ in range(10):
        machine.share = 0.4
        machine.updates(2)
        machine.share = 0.0
        machine.updates(1)
    assert machine.used == []


def test_more_are_tried_ever_less_often() -> None:
    machine = Machine()
    machine.share = 0.5
    machine.updates(1_000)
    assert machine.used.count(2) < 10
    assert machine.cores.threads in (1, 2)


def test_what_this_process_has_waited_only_grows() -> None:
    before = waited_for_cpus()
    assert 0 <= before <= waited_for_cpus()
