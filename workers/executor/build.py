"""Builds the process manager of one run's actors, with what this host can do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from artos.clock import Clock
from artos.pool.folder import named_faults
from artos.runs.cleanup import image_faults, image_folder
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.runtime.preload import Preloaded
from artos.runtime.servers import device_faults
from artos.specs.elastic import Elastic
from artos.specs.members import TEMPLATE, Member
from artos.system.child import Starter, start
from artos.system.shm import free_bytes
from triggers.passers import Mailboxes
from workers.actors.idle_tiers import IdleTiers
from workers.actors.process_manager import ProcessManager
from workers.actors.spawners.clones import Clones
from workers.actors.spawners.early import Early
from workers.actors.spawners.forks import Forks
from workers.actors.spawners.spawner import ColdStart, Place, Spawner, SpawnStrategy
from workers.actors.tier_policy import Tier
from workers.actors.usage import Accounts
from workers.checkpoint.checkpointer import Checkpointer, Progress
from workers.checkpoint.criu.driver import Criu, NoCriu, criu_here
from workers.checkpoint.images import ImageStore
from workers.checkpoint.tiers import Tier as Can
from workers.checkpoint.tiers import probe
from workers.host import pinning
from workers.host.cpus import host_slots
from workers.host.leased_slots import leased_slots
from workers.host.shared_slots import MOST_SHARES, SharedSlots
from workers.host.slots import Slot, Slots, SlotTable

_log = logging.getLogger(__name__)
_ORDER = ("auto", "clone", "fork", "cold")
_UNREADY = 4
"""Actors for each CPU that are set up at once."""


def build(
    node: RunMemory,
    home: Path,
    mail: Mailboxes,
    clock: Clock,
    preloaded: Preloaded | None = None,
    cpus: Sequence[int] | None = None,
) -> ProcessManager:
    """The process manager of the actors of ``node``, whose mailboxes are ``mail``.

    Images are kept in ``home`` unless the plan says otherwise. There is a slot for each of
    ``cpus``, by default for each CPU that may be used here; other runs here use them as well.
    """

    def recover(actor: int) -> None:
        node.blocks[actor].recover()
        node.unpin(actor)

    def progress(actor: int) -> Progress:
        return Progress(node.blocks[actor].written, node.weights.version)

    elastic = node.plan.elastic
    place = Place(node.site, node.plan_file, node.plan.reference.folder)
    cpu_slots = host_slots(affinity=cpus)
    wanted = elastic.slots or _most_at_once(node.plan, len(cpu_slots))
    most = min(wanted, len(cpu_slots))
    slots: Slots = leased_slots(
        cpu_slots, min(most, node.plan.actors), node.site.workload, node.board.doorbell.ring, clock,
        weight=node.plan.weight, priority=node.plan.priority,
    )  # fmt: skip
    if (shares := -(-wanted // most)) > 1:
        slots = SharedSlots(slots, shares)
    pin = elastic.pin and probe()["pin"].available

    def prefix(slot: Slot | None, *, any_cpu: bool = False) -> Sequence[str]:
        return pinning.numactl_prefix(slot, any_cpu=any_cpu) if pin and slot is not None else ()

    for text in shortfalls(node.plan, len(cpu_slots)):
        _log.warning("%s", text)
    criu, accounts = criu_here(clock), Accounts(clock)
    folder = image_folder(Path(node.site.folder), elastic.images, home, elastic.image_bytes)
    store = ImageStore(folder, elastic.image_mb * 1_000_000 or free_bytes(folder) // 2)
    gives_back = elastic.images != "tmpfs"
    checkpointer = Checkpointer(node.site, criu, store, prefix, progress, gives_back=gives_back)
    names: tuple[Tier, ...] = ("memory", "freeze", "checkpoint")
    here = frozenset(name for name in names if probe()[name].available)
    tiers = IdleTiers(elastic.park, here, checkpointer, accounts, node.unpin, clock)
    begin = start if preloaded is None else preloaded.start
    strategies = _strategies(place, elastic, criu, checkpointer, prefix, most, begin)
    early = None
    # Images of the first forks are large, since only the kernel knows which pages a fork shares.
    if preloaded is not None and elastic.start == "auto" and elastic.park != "checkpoint":
        early = Early(preloaded, place, most, images=_images(criu), others=node.plan.actors > most)
    spawner = Spawner(strategies, early, _UNREADY * len(cpu_slots), clock)
    return ProcessManager(
        place, mail, recover, spawner, cpu_slots,
        SlotTable(slots, clock), tiers, accounts, clock, pin=pin,
    )  # fmt: skip


def _most_at_once(plan: Plan, cpus: int) -> int:
    """How many actors may run at once here: those that wait for answers leave a CPU to others."""
    return min(plan.actors, MOST_SHARES * cpus) if plan.shares_slots else cpus


def shortfalls(plan: Plan, cpus: int) -> list[str]:
    """What the plan asks for and is done in another way here, where ``cpus`` may be used."""
    elastic, can = plan.elastic, probe()
    found = []
    if elastic.park == "checkpoint" and not can["checkpoint"].available:
        found.append(f"park=checkpoint: actors are frozen instead: {_lacking(can['checkpoint'])}")
    if elastic.start == "clone" and not can["clone"].available:
        found.append(f"start=clone: actors are forked instead: {_lacking(can['clone'])}")
    if elastic.slots > (most := _most_slots(plan, cpus)):
        found.append(
            f"slots={elastic.slots}: at most {most} actors run at once on {cpus} CPUs here"
        )
    return found


def _lacking(tier: Can) -> str:
    return f"{tier.reason} ({tier.fix})" if tier.fix else tier.reason


def _most_slots(plan: Plan, cpus: int) -> int:
    return MOST_SHARES * cpus if plan.shares_slots else cpus


def faults(plan: Plan) -> list[str]:
    """Everything the plan demands for its actors and servers that this host cannot do."""
    found = [*image_faults(plan.elastic.images), *named_faults(), *device_faults(plan)]
    cpus = len(host_slots())
    if plan.elastic.slots > _most_slots(plan, cpus):
        each = f", by {MOST_SHARES} actors each" * plan.shares_slots
        return [*found, f"slots={plan.elastic.slots}, but only {cpus} CPUs may be used here{each}"]
    slots = plan.elastic.slots or _most_at_once(plan, cpus)
    if plan.elastic.park == "never" and plan.actors > slots:
        found.append(
            f"park=never keeps a slot for each of {plan.actors} actors, and there are {slots}: "
            "take fewer actors or another park"
        )
    return found


def _strategies(
    place: Place,
    elastic: Elastic,
    criu: Criu | NoCriu,
    template: Checkpointer,
    prefix: pinning.Prefix,
    at_once: int,
    begin: Starter,
) -> list[Callable[[], SpawnStrategy]]:
    """Strategies to spawn actors, best first: the one asked for, and those below it.

    If none is asked for, clones are for environments that cannot be forked.
    """
    member = Member(TEMPLATE)
    forks = partial(Forks, place, member, begin, images=_images(criu))
    strategies: dict[str, Callable[[], SpawnStrategy]] = {}
    if isinstance(criu, Criu) and _images(criu):
        strategies["auto"] = partial(forks, optional=True)
        strategies["clone"] = lambda: Clones(place, member, criu, template, prefix, at_once, begin)
    strategies["fork"] = forks
    strategies["cold"] = lambda: ColdStart(place, prefix)
    first = elastic.start if elastic.start in strategies else next(iter(strategies))
    return [each for name, each in strategies.items() if _ORDER.index(name) >= _ORDER.index(first)]


def _images(criu: Criu | NoCriu) -> bool:
    """Whether images can be made here of processes that are the first of a PID namespace."""
    return isinstance(criu, Criu) and probe()["clone"].available
