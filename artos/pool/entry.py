"""What is checked and written when a process joins or enters: resources, workloads, needs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection

from artos.pool import records
from artos.pool.accounts import Account
from artos.pool.choice import NANO
from artos.pool.faults import PoolDamaged, PoolFull, PoolRefused
from artos.pool.records import (
    NONE,
    AccountRecord,
    KindRecord,
    MemberRecord,
    ResourceRecord,
    resource_of,
)
from artos.pool.resources import Party, Resource, Want
from artos.pool.table import Table
from artos.specs.weight import weight_faults
from artos.system.closest import closest

_MOST = 1 << 40
"""More than any machine has, and sums of it still fit into the words of the table."""


def define(
    table: Table, resources: tuple[Resource, ...], otherwise: tuple[Resource, ...] = ()
) -> None:
    """Have these resources in the pool; its first member replaces what was there.

    Of ``otherwise`` those are added of whose kind the pool has no resource.

    Raises:
        PoolRefused: one is not possible, or members know it differently.
        PoolFull: there are too many.
    """
    if faults := [fault for each in resources + otherwise for fault in _resource_faults(each)]:
        raise PoolRefused(faults)
    if (resources or otherwise) and not len(table.members):
        for number, _ in table.resources.items():
            table.resources.remove(number)
    known = {table.kinds[each.kind].name for each in table.resources.values()}
    resources += tuple(each for each in otherwise if each.kind not in known)
    faults = [fault for each in resources if (fault := _disagreement(table, each))]
    if faults:
        raise PoolRefused(faults)
    for each in resources:
        if table.resources.find(name=each.name) is None:
            kind = table.kinds.find(name=each.kind)
            if kind is None:
                kind = table.kinds.add(KindRecord(0, each.kind))
            if kind is None:
                raise PoolFull("kinds of resources", records.KINDS)
            if table.resources.add(ResourceRecord.of(each, kind)) is None:
                raise PoolFull("resources", records.RESOURCES)


def _resource_faults(resource: Resource) -> list[str]:
    faults, who = [], f"resource {resource.name!r}"
    if not 0 < len(resource.name.encode()) <= records.NAME_BYTES:
        faults.append(f"{who}: its name must have 1 to {records.NAME_BYTES} bytes")
    if not 0 < len(resource.kind.encode()) <= records.KIND_BYTES:
        faults.append(f"{who}: the name of its kind must have 1 to {records.KIND_BYTES} bytes")
    if resource.share < 1:
        faults.append(f"{who}: share={resource.share} lets no one have it: use 1 or more")
    if resource.memory_mb < 0:
        faults.append(f"{who}: memory_mb={resource.memory_mb}: use 0 if it is not to be counted")
    if max(resource.share, resource.memory_mb) > _MOST:
        faults.append(f"{who}: share and memory_mb can be {_MOST:,} at most")
    return faults


def _disagreement(table: Table, resource: Resource) -> str:
    """How members know this resource differently; "" if they do not."""
    for record in table.resources.values():
        known = resource_of(record, table.kinds[record.kind].name)
        same_gpu = bool(known.uuid) and known.uuid == resource.uuid
        if not (same_gpu or known.name == resource.name) or known.agrees(resource):
            continue
        pids = ", ".join(str(each.pid) for each in table.members.values())
        both = known.uuid and resource.uuid
        if both and (known.uuid, known.name) != (resource.uuid, resource.name):
            return (
                f"{resource.name} is the GPU {resource.uuid} here, and for processes {pids} of "
                f"this machine {known.name} is {known.uuid}: name devices under the same "
                "CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, best without"
            )
        return f"processes {pids} of this machine use {known}, not {resource}: all must agree"
    return ""


def least_sought(table: Table, names: Collection[str]) -> str:
    """Which of these resources has the fewest seats, relative to its share."""
    seats = Counter(each.wants for each in table.seats.values())
    there = [(n, each) for n, each in table.resources.items() if each.name in names]
    if not there:
        return " or ".join(names)
    return min(there, key=lambda pair: (1 + seats[pair[0]]) / pair[1].share)[1].name


def seat_faults(
    table: Table, workload: str, what: str, weight: float, memory_mb: int, priority: int = 0
) -> tuple[list[str], int, int]:
    """Why a seat cannot be had; else the numbers of its kind and of the resource it names."""
    faults = []
    if not 0 < len(workload.encode()) <= records.WORKLOAD_BYTES:
        faults.append(
            f"workload {workload!r}: its name must have 1 to {records.WORKLOAD_BYTES} bytes"
        )
    faults += weight_faults(weight)
    if memory_mb < 0:
        faults.append(f"memory_mb={memory_mb}: it cannot be negative")
    if max(memory_mb, abs(priority)) > _MOST:
        faults.append(f"memory_mb and priority can be {_MOST:,} at most")
    wants = table.resources.find(name=what)
    kind = table.kinds.find(name=what) if wants is None else table.resources[wants].kind
    of_kind = [each for each in table.resources.values() if each.kind == kind]
    if wants is None and not of_kind:
        names = [each.name for each in table.resources.values()]
        names += [each.name for each in table.kinds.values()]
        have = f"{closest(what, names)}: it has {', '.join(names)}"
        none = ": no process has given it any resource (Pool.join(resources))"
        faults.append(f"the pool has no {what!r}{have if names else none}")
    want = Want(what if wants is not None else "", memory_mb)
    usable = [each for each in of_kind if want.could_use(resource_of(each, ""))]
    if of_kind and not usable:
        most = max(each.memory_mb for each in of_kind)
        faults.append(f"memory_mb={memory_mb}: {what} has {most} MB at most")
    return faults, NONE if kind is None else kind, NONE if wants is None else wants


def party_faults(table: Table, party: Party, workload: str, what: str, priority: int) -> list[str]:
    """Why a seat of a workload that asks for ``what`` cannot be one of a party."""
    faults, others = [], [each for each in table.seats.values() if each.party == party.number]
    wants = table.resources.find(name=what)
    if not (0 < party.number < 1 << 63 and 1 < party.seats <= records.SEATS):
        faults.append(
            f"{party}: number must be within 1 and 2**63 - 1, seats must be within 2 and "
            f"{records.SEATS}"
        )
    if wants is None:
        faults.append(f"{what!r} is a kind of resources: a seat of a party names the one it is for")
    elif any(each.wants == wants for each in others):
        faults.append(f"another seat of the party is for {what}: each has one of its own")
    if len(others) >= party.seats or any(
        (each.party_seats, each.priority) != (party.seats, priority)
        or table.accounts[each.account].workload != workload
        or (wants is not None and table.resources[wants].kind != each.kind)
        for each in others
    ):
        faults.append(
            f"{party} cannot have this seat: it has {len(others)} seats, and all are of one "
            "workload, for one kind of resources, and say the same number of seats and priority"
        )
    return faults


def account_of(table: Table, kind: int, workload: str, weight: float, now: int) -> int:
    """The number of the account of a workload, made if need be; it has this weight from now on.

    Raises:
        PoolFull: there are too many, all with seats.
    """
    number = table.accounts.find(kind=kind, workload=workload)
    if number is None:
        record = AccountRecord(kind, weight, 0.0, 0, 0, 0, 0, 0, 0, 0, workload)
        number = table.accounts.add(record)
    if number is None:  # forget the workload without seats whose last turn is longest ago
        used = {each.account for each in table.seats.values()}
        unused = [(each.turn, n) for n, each in table.accounts.items() if n not in used]
        if not unused:
            raise PoolFull("workloads", records.ACCOUNTS)
        table.accounts.remove(min(unused)[1])
        number = table.accounts.add(record)
        assert number is not None
    if table.accounts[number].weight != weight:
        record = table.accounts.edit(number)
        account = Account(workload, record.weight, record.held / NANO, record.lead)
        account.reweigh(weight, now / NANO)
        record.weight, record.lead = weight, account.lead
    return number


def add_member(table: Table, name: str, now: int) -> int:
    """Add this process, and take the lock that says that it lives; returns its number.

    Raises:
        PoolFull: there are as many as there can be.
        PoolDamaged: a free record's lock is some process's.
    """
    text = name.encode()[: records.MEMBER_BYTES].decode(errors="ignore")
    member = table.members.add(MemberRecord(os.getpid(), now, 0, text))
    if member is None:
        raise PoolFull("processes", records.MEMBERS)
    if not table.locks.take(member):
        why = f"process {table.locks.holder(member)} has a place that it does not know of"
        raise PoolDamaged(str(table.path), why, table.users)
    return member
