"""``artos doctor``: reports what this machine offers elastic actors, what it lacks, and fixes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import msgspec

from artos.buffer.segment import free_bytes
from artos.system.shm import shm_root
from artos.system.usable_cpus import cpu_quota, usable_cpus
from workers.checkpoint.tiers import Tier, probe
from workers.host.cpus import numa_nodes

_LEAST_SHM = 256 * 2**20
_LEAST_FILES = 1024
_LEAST_PROCESSES = 1024


class Cpus(msgspec.Struct, frozen=True):
    """The CPUs this process may use, the number present, the quota in CPUs, their NUMA nodes."""

    usable: tuple[int, ...]
    present: int
    quota: float | None
    nodes: dict[int, int]


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
    """Examine this machine by really trying things; nothing is changed."""
    tiers, shm, limits = probe(), _shm(), _limits()
    return HostReport(tiers, _cpus(), shm, limits, missing(tiers, shm, limits))


def missing(tiers: dict[str, Tier], shm: Shm, limits: ProcessLimits) -> list[Missing]:
    """Everything that is missing. A fix that helps several tiers is listed once."""
    return [*_missing_tiers(tiers), *_narrow(shm, limits)]


def _missing_tiers(tiers: dict[str, Tier]) -> Iterator[Missing]:
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, tier in tiers.items():
        if not tier.available:
            lacking.setdefault((tier.reason, tier.fix), []).append(name)
    for (reason, fix), names in lacking.items():
        yield Missing(f"{', '.join(names)}: {reason}", fix)


def _narrow(shm: Shm, limits: ProcessLimits) -> Iterator[Missing]:
    if shm.free < _LEAST_SHM:
        yield Missing(
            f"{shm.folder} has only {_size(shm.free)} free",
            f"artos clean; mount -o remount,size=2G {shm.folder} (a container: --shm-size=2g)",
        )
    if limits.nofile is not None and limits.nofile < _LEAST_FILES:
        yield Missing(f"only {limits.nofile} open files are allowed", "ulimit -n 4096")
    if limits.nproc is not None and limits.nproc < _LEAST_PROCESSES:
        yield Missing(f"only {limits.nproc} processes are allowed", "ulimit -u 4096")


# -- examining ------------------------------------------------------------------------------------


def _cpus() -> Cpus:
    usable = usable_cpus()
    nodes = {cpu: node for cpu, node in numa_nodes().items() if cpu in usable}
    return Cpus(usable, os.cpu_count() or len(usable), cpu_quota(), nodes)


def _shm() -> Shm:
    folder: Path = shm_root()
    stat = os.statvfs(folder)
    return Shm(str(folder), stat.f_blocks * stat.f_frsize, free_bytes(folder))


def _limits() -> ProcessLimits:
    return ProcessLimits(_soft(resource.RLIMIT_NOFILE), _soft(resource.RLIMIT_NPROC))


def _soft(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


# -- reporting ------------------------------------------------------------------------------------


def text(report: HostReport) -> str:
    """The report for a terminal."""
    return "\n".join([*_tier_lines(report), "", *_machine_lines(report), "", *_advice(report)])


def _tier_lines(report: HostReport) -> Iterator[str]:
    width = max(map(len, report.tiers))
    for name, tier in report.tiers.items():
        yield f"{name:<{width}}  {'yes' if tier.available else 'no ':<3}  {tier.reason}"


def _machine_lines(report: HostReport) -> Iterator[str]:
    cpus, shm, limits = report.cpus, report.shm, report.limits
    nodes = len(set(cpus.nodes.values())) or 1
    numbers = " ".join(map(str, cpus.usable))
    quota = "no quota" if cpus.quota is None else f"quota {cpus.quota:g}"
    usable = f"{len(cpus.usable)} of {cpus.present} usable ({numbers})"
    yield f"CPUs    {usable}, {quota}, nodes: {nodes}"
    yield f"shm     {_size(shm.free)} of {_size(shm.size)} free in {shm.folder}"
    yield f"limits  open files {_limit(limits.nofile)}, processes {_limit(limits.nproc)}"


def _advice(report: HostReport) -> Iterator[str]:
    if not report.missing:
        yield "nothing is missing"
    for each in report.missing:
        yield f"missing  {each.what}"
        yield f"   fix:  {each.fix}"


def _limit(number: int | None) -> str:
    return "unlimited" if number is None else f"{number:,}"


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
