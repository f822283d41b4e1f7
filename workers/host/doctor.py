"""``artos doctor``: reports what this machine offers elastic actors, what it lacks, and fixes."""

from __future__ import annotations

import os
import resource

import msgspec

from artos.system.shm import free_bytes, shm_root
from artos.system.usable_cpus import cpu_quota, usable_cpus
from workers.checkpoint.tiers import Tier, probe
from workers.host.cpus import numa_nodes

_LEAST_SHM = 256 * 2**20
_LEAST_FILES = 1024
_LEAST_PROCESSES = 1024


class Cpus(msgspec.Struct, frozen=True):
    """The CPUs of this machine."""

    usable: tuple[int, ...]
    """Those that this process may use."""
    present: int
    """How many there are."""
    quota: float | None
    """How many this process may use at once, as a control group limits it; None: no limit."""
    nodes: dict[int, int]
    """The NUMA node of each usable CPU."""


class Shm(msgspec.Struct, frozen=True):
    """Shared memory, in bytes."""

    folder: str
    size: int
    free: int


class ProcessLimits(msgspec.Struct, frozen=True):
    """Open files and processes this process may have; None where there is no limit."""

    nofile: int | None
    nproc: int | None


class Missing(msgspec.Struct, frozen=True):
    """Something this machine lacks, and the command that changes it."""

    what: str
    fix: str


class HostReport(msgspec.Struct, frozen=True):
    """Everything that ``artos doctor`` reports."""

    tiers: dict[str, Tier]
    cpus: Cpus
    shm: Shm
    limits: ProcessLimits
    missing: list[Missing]


def examine() -> HostReport:
    """Examine this machine by really trying things; changes nothing."""
    usable, folder = usable_cpus(), shm_root()
    nodes = {cpu: node for cpu, node in numa_nodes().items() if cpu in usable}
    cpus = Cpus(usable, os.cpu_count() or len(usable), cpu_quota(), nodes)
    stat = os.statvfs(folder)
    shm = Shm(str(folder), stat.f_blocks * stat.f_frsize, free_bytes(folder))
    limits = ProcessLimits(_soft(resource.RLIMIT_NOFILE), _soft(resource.RLIMIT_NPROC))
    tiers = probe()
    return HostReport(tiers, cpus, shm, limits, missing(tiers, shm, limits))


def missing(tiers: dict[str, Tier], shm: Shm, limits: ProcessLimits) -> list[Missing]:
    """Everything that is missing. A fix that helps several tiers is listed once."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, tier in tiers.items():
        if not tier.available:
            lacking.setdefault((tier.reason, tier.fix), []).append(name)
    found = [
        Missing(f"{', '.join(names)}: {reason}", fix) for (reason, fix), names in lacking.items()
    ]
    if shm.free < _LEAST_SHM:
        what = f"{shm.folder} has only {_size(shm.free)} free"
        enlarge = f"mount -o remount,size=2G {shm.folder} (a container: --shm-size=2g)"
        found.append(Missing(what, f"artos clean; {enlarge}"))
    if limits.nofile is not None and limits.nofile < _LEAST_FILES:
        what = f"only {limits.nofile} open files are allowed"
        found.append(Missing(what, "ulimit -n 4096"))
    if limits.nproc is not None and limits.nproc < _LEAST_PROCESSES:
        what = f"only {limits.nproc} processes are allowed"
        found.append(Missing(what, "ulimit -u 4096"))
    return found


def _soft(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


def text(report: HostReport) -> str:
    """The report for a terminal."""
    width = max(map(len, report.tiers))
    lines = [
        f"{name:<{width}}  {'yes' if tier.available else 'no ':<3}  {tier.reason}"
        for name, tier in report.tiers.items()
    ]
    cpus, shm, limits = report.cpus, report.shm, report.limits
    nodes = len(set(cpus.nodes.values())) or 1
    numbers = " ".join(map(str, cpus.usable))
    quota = "no quota" if cpus.quota is None else f"quota {cpus.quota:g}"
    usable = f"{len(cpus.usable)} of {cpus.present} usable ({numbers})"
    files, processes = _limit(limits.nofile), _limit(limits.nproc)
    lines += [
        "",
        f"CPUs    {usable}, {quota}, nodes: {nodes}",
        f"shm     {_size(shm.free)} of {_size(shm.size)} free in {shm.folder}",
        f"limits  open files {files}, processes {processes}",
        "",
    ]
    if not report.missing:
        lines.append("nothing is missing")
    for each in report.missing:
        lines += [f"missing  {each.what}", f"   fix:  {each.fix}"]
    return "\n".join(lines)


def _limit(number: int | None) -> str:
    return "unlimited" if number is None else f"{number:,}"


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
