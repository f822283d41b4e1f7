"""A real Slurm on this machine: a controller and three nodes, each with a host name of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluation.lab.layer import Layer, layer

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")
NODES = ("w1", "w2", "w3")
_CPUS = 4
"""Of each node, as Slurm is told: this machine need not have them."""
_CONF = """
ClusterName=tests
SlurmctldHost=ctl(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/%n.log
ReturnToService=2
JobRequeue=1
KillWait=10
InactiveLimit=0
SlurmdTimeout=20
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,bf_interval=1,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
"""
_PARTITIONS = """
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=20 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
PartitionName=brief Nodes=ALL PriorityTier=1 PreemptMode=OFF MaxTime=1 State=UP
"""  # noqa: E501 (one line each, by Slurm's format)

_IDLE = ("sinfo", "--noheader", "--Node", "--states=idle", "--partition=low")
_KILL_NODE = """
set -e
node=$(readlink /proc/$(cat {folder}/{name}.pid)/ns/uts)
for each in /proc/[0-9]*; do
    [ "$(readlink $each/ns/uts)" != "$node" ] || kill -KILL ${{each#/proc/}} || true
done
"""


class Slurm:
    """The commands of a Slurm that runs in a layer; made by ``slurm`` or ``serve``."""

    def __init__(self, there: Layer) -> None:
        self.run, self.tried, self.until = there.run, there.tried, there.until
        self.folder = there.folder
        self._start_daemon = there.start_node_daemon
        self._failed: set[str] = set()

    def start(self, name: str) -> None:
        """Start the daemon of a node."""
        self._start_daemon(f"slurmd -N {name}", name)

    def fail(self, name: str) -> None:
        """Kill all that runs on a node, as if it had lost power; Slurm finds out after a while."""
        self.run("sh", "-c", _KILL_NODE.format(folder=self.folder, name=name))
        self._failed.add(name)

    def is_idle(self) -> bool:
        """Whether no node has a job, and none has failed."""
        return len(self.tried(*_IDLE).stdout.splitlines()) == len(NODES)

    def mend(self) -> None:
        """Have all nodes idle again, once their jobs have ended."""
        while self._failed:
            self.start(self._failed.pop())

        def all_idle() -> bool:
            for name in NODES:  # of one that is not down or drained this is refused
                self.tried("scontrol", "update", f"nodename={name}", "state=resume")
            return self.is_idle()

        self.until(all_idle, 240.0)

    def jobs(self, *flags: str) -> list[dict[str, str]]:
        """All jobs, one for each element of an array."""
        fields = {"id": "%i", "name": "%j", "state": "%T", "node": "%N", "why": "%r"}
        told = self.run("squeue", "-h", "-r", f"--format={'|'.join(fields.values())}", *flags)
        return [dict(zip(fields, line.split("|"), strict=True)) for line in told.splitlines()]


@contextmanager
def slurm(folder: Path, port: int = 16817) -> Iterator[Slurm]:
    """A Slurm whose nodes are idle, in a layer of its own; nothing of it is left afterwards."""
    with layer(folder, *PACKAGES, provides=["slurmctld"]) as there:
        yield serve(there, port)


def serve(there: Layer, port: int) -> Slurm:
    """A Slurm whose nodes are idle; it ends with the layer."""
    folder = there.folder
    (folder / "state").mkdir()
    nodes = [
        f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port + 10 + number} "
        f"CPUs={_CPUS} RealMemory=1000"
        for number, name in enumerate(NODES)
    ]
    conf = [_CONF.format(folder=folder, port=port), *nodes, _PARTITIONS]
    (folder / "slurm.conf").write_text("\n".join(conf))
    there.variables |= {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "ARTOS_CLUSTERS": str(folder / "clusters"),
    }
    there.start_node("slurmctld -D", "ctl")
    served = Slurm(there)
    for name in NODES:
        served.start(name)
    there.until(served.is_idle, 240.0)
    return served
