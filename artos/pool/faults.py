"""What can go wrong with leases: one class per situation, in addition to ``artos.errors``."""

from __future__ import annotations

from collections.abc import Sequence

from artos.errors import ArtosError, BufferFault, DeadlineExceeded, Refused


class PoolRefused(Refused):
    """A pool was asked for what it does not have or cannot take; ``faults`` lists every reason."""


class PoolFull(PoolRefused):
    """The table has no record left for another one of ``what``."""

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most = what, most
        super().__init__(
            [f"the pool has its {most} {what} already: wait for a run to end, see `artos pool`"]
        )


class PoolVersion(BufferFault):
    """The table in shared memory was made by another version of ARTOS, and is in use."""

    def __init__(self, path: str, found: int, expected: int, users: list[int]) -> None:
        self.path, self.found, self.expected, self.users = path, found, expected, tuple(users)
        who = ", ".join(map(str, users))
        super().__init__(
            f"{path} has version {found}, this ARTOS reads version {expected}: use the version of "
            f"ARTOS that the runs there use (processes {who}), or wait until they have ended"
        )


class PoolDamaged(BufferFault):
    """What lies where the table should be is not what a pool writes; ``what`` says how.

    ``users`` are the other processes that use it.
    """

    def __init__(self, path: str, what: str, users: Sequence[int] = ()) -> None:
        self.path, self.what, self.users = path, what, tuple(users)
        who = ", ".join(map(str, users))
        wait = f", once what uses it has ended (processes {who})" if users else ""
        super().__init__(f"{path} is damaged ({what}): `artos clean` removes it{wait}")


class PoolStuck(DeadlineExceeded):
    """Another process has kept the table locked: it was stopped while it changed it."""

    def __init__(self, path: str, seconds: float, pids: list[int]) -> None:
        self.pids = tuple(pids)
        super().__init__(
            f"the table {path}, which one of the processes {', '.join(map(str, pids))} keeps "
            "locked: was one stopped (`ps -o pid,stat`: T)? Continue it (kill -CONT) or kill it",
            seconds,
        )


class DeviceFull(ArtosError):
    """An update found no room on its leased device: its learner is started again, and has more."""

    def __init__(self, device: str, had_mb: int, asks_mb: int, why: str) -> None:
        self.device, self.had_mb, self.asks_mb = device, had_mb, asks_mb
        super().__init__(
            f"an update needs more of {device} than the {had_mb:,} MB that it could have: it is "
            f"tried again once {asks_mb:,} MB are free for it ({why})"
        )


class DeviceTooSmall(ArtosError):
    """An update found no room on its leased device, and there is no more that it could have."""

    def __init__(self, device: str, had_mb: int, total_mb: int, why: str) -> None:
        self.device, self.had_mb, self.total_mb = device, had_mb, total_mb
        super().__init__(
            f"an update finds no room in {had_mb:,} MB of {device}, which has "
            f"{total_mb:,} MB: make batches or networks smaller (minibatches, batch, hidden), or "
            f"end what else uses the device, see `artos pool` and `nvidia-smi` ({why})"
        )


class NotInPool(ArtosError):
    """A pool, seat or lease was used after it was left, after a fork, or after it was lost."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: join the pool (again) in this process")


class LeasedTwice(ArtosError):
    """A seat asked for a lease while it waits for one or has one."""

    def __init__(self, workload: str, has: str) -> None:
        self.workload, self.has = workload, has
        super().__init__(
            f"a seat of {workload!r} asked for a second lease while it {has}: give the first one "
            "back, or enter the pool once more for a seat of its own"
        )


class LeaseTimeout(DeadlineExceeded):
    """No resource was granted in time; ``holders`` says who had them."""

    def __init__(self, wanted: str, seconds: float, holders: list[str]) -> None:
        self.holders = tuple(holders)
        held = "; ".join(holders) or "no one: others in the queue were served"
        super().__init__(f"{wanted} of the pool; held by {held}; see `artos pool`", seconds)


class PartyIncomplete(DeadlineExceeded):
    """Other seats of a party, ``missing``, did not ask for their resources in time."""

    def __init__(self, wanted: str, missing: list[str], seconds: float) -> None:
        self.missing = tuple(missing)
        super().__init__(
            f"{wanted} of the pool, which comes when all of its party have asked: "
            f"{'; '.join(missing)}; see what these processes do",
            seconds,
        )


class NoMemoryInTime(DeadlineExceeded):
    """A learner waited too long for memory of its device; those in ``held_by`` have it."""

    def __init__(self, lacking: str, held_by: tuple[str, ...], seconds: float) -> None:
        self.held_by = held_by
        super().__init__(
            f"{lacking}: stop one of these runs, let fewer share the device (`--devices`), make "
            "batches or networks smaller, or wait longer (--deadline); see `artos pool`",
            seconds,
        )


class LeaseRevoked(ArtosError):
    """A lease went on beyond its deadline while others waited, and was taken away."""

    def __init__(self, workload: str, resource: str, seconds: float) -> None:
        self.workload, self.resource, self.seconds = workload, resource, seconds
        super().__init__(
            f"{workload!r} lost {resource}: it had it for more than {seconds:g} s while others "
            "waited; ask for a longer lease, or renew it between steps (lease.renew)"
        )
