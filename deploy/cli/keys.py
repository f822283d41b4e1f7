"""``artos keys``: make and revoke the keys of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from artos.errors import Refused
from artos.transport import keys
from artos.transport.roles import ANY, OWNER, Holder, KeyRole
from artos.version import VERSION
from deploy.launchers.cluster import RECORD, load
from deploy.launchers.launcher import EngineFailed, Launcher, launcher_of


@dataclass(frozen=True)
class KeysReport:
    """The state of a folder of keys: new files, revoked keys, accepted users and nodes."""

    folder: str
    made: list[str]
    revoked: list[str]
    users: list[str]
    nodes: list[str]
    within: float = 0.0
    """Seconds within which the head goes by them, where it has a copy of the folder."""


def change(
    folder: Path, users: Sequence[str], nodes: Sequence[str], *, revoke: bool = False
) -> KeysReport:
    """Make (or revoke) keys by name; without names, make the keys of one person's cluster.

    Raises:
        Refused: see ``artos.transport.keys``; or no key to revoke is named; or the folder is that
            of a cluster on an engine which cannot be asked from here. Nothing is changed.
        EngineFailed: it is changed, but the engine did not take the keys.
    """
    launcher = _launcher(folder)
    named = [*(Holder(KeyRole.USER, name) for name in users)]
    named += [Holder(KeyRole.NODE, name) for name in nodes]
    made: list[Path] = []
    if not revoke:
        made = keys.make_keys(folder, *named)
    elif not named:
        raise Refused(["name the key to revoke: --user NAME or --node NAME"])
    else:
        keys.revoke(folder, *named)
    try:
        within = launcher.hand_out_keys() if launcher else 0.0
    except EngineFailed as failed:
        why = f"{failed.why}. {folder} is changed, its cluster is not: repeat its `artos up`"
        raise EngineFailed(failed.engine, failed.what, why) from failed
    return KeysReport(
        str(folder),
        [str(path) for path in made],
        [str(each) for each in named if revoke],
        keys.names(folder, KeyRole.USER),
        keys.names(folder, KeyRole.NODE),
        within,
    )


def _launcher(folder: Path) -> Launcher | None:
    """The engine of the cluster to which a folder of keys belongs, if there is such a cluster."""
    path = folder.resolve()
    if not (path.parent / RECORD).exists() or (cluster := load(path.parent)).keys != path:
        return None
    if cluster.version != VERSION:
        raise Refused(
            [f"cluster {cluster.name} was brought up by ARTOS {cluster.version}, and this is "
             f"{VERSION}: `artos down {cluster.name}` and `artos up` it again first"]
        )  # fmt: skip
    launcher = launcher_of(cluster)
    if launcher.inside and (faults := launcher.faults(cluster)):
        raise Refused(faults)
    return launcher


def text(report: KeysReport) -> str:
    """The report as text."""
    lines = [f"made {path}" for path in report.made]
    later = f"once the head's copy of the keys is new, in about {report.within:g} seconds"
    when = later if report.within else "from now on"
    lines += [f"revoked {holder}: it is refused {when}" for holder in report.revoked]
    if report.made and report.within:
        lines.append(f"new keys are accepted {when}")
    lines.append(f"users with a key: {', '.join(report.users) or 'none'}")
    lines.append(f"nodes with a key: {', '.join(report.nodes) or 'none'}")
    if ANY.name in report.nodes:
        lines.append(f"the key of {ANY.name} is valid for every node that has no key of its own")
    lines += [_to_copy(report.folder, path) for path in report.made if path.endswith("_secret")]
    return "\n".join(line for line in lines if line)


def _to_copy(folder: str, secret: str) -> str:
    """A command that copies the two files a user or worker needs, and nothing else."""
    path = Path(secret).relative_to(folder)
    if path.parent.name not in keys.FOLDERS.values() or path.stem == OWNER.name:
        return ""  # the keys of the head and of the owner stay here
    role, target = ("worker", "NODE") if path.parent.name == "nodes" else ("user", "MACHINE")
    return (
        f"a {role} on another machine needs two files: tar -C {folder} -c head.key {path} "
        f"| ssh {target} 'mkdir -pm 700 keys && tar -C keys -xp'"
    )
