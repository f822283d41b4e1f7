"""Where this process stands in the kernel's control groups, version 1, version 2 or both at once.

Its functions take ``root``, the folder that stands for ``/``: tests give them a made-up tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def groups(controller: str, root: Path = ROOT) -> list[Path]:
    """Folders of the groups this process is in, its own first, then each one above it.

    Their limits hold together: the effective limit is the least of all. Groups of version 1
    (where ``controller`` has a tree of its own) come first, then those of version 2.
    """
    own = _memberships(root)
    return [
        folder
        for kind, options, inner, point in _mounts(root)
        if (name := _tree(kind, options, controller)) is not None and name in own
        for folder in _upwards(root / point.relative_to("/"), _below(own[name], inner))
    ]


def text(path: Path) -> str:
    """A small file of the kernel's; empty if it is not there."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def numbers(listed: str) -> Iterator[int]:
    """The numbers of a list as the kernel writes it: ``0-2,5`` is 0, 1, 2, 5."""
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _tree(kind: str, options: str, controller: str) -> str | None:
    """The name /proc/self/cgroup has for a mounted tree; None if not that of ``controller``."""
    if kind == "cgroup2":
        return ""
    return controller if kind == "cgroup" and controller in options.split(",") else None


def _memberships(root: Path) -> dict[str, PurePosixPath]:
    """This process's group by controller; that of version 2 under the empty name."""
    found = {}
    for line in text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = PurePosixPath(path)
    return found


def _mounts(root: Path) -> list[tuple[str, str, PurePosixPath, PurePosixPath]]:
    """Mounted group trees, version 1 first: kind, options, which part of the tree, where."""
    found = []
    for line in text(root / "proc/self/mountinfo").splitlines():
        mount, _, device = line.partition(" - ")
        kind, _, options = device.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            inner, point = mount.split(" ")[3:5]
            found.append((kind, options, PurePosixPath(inner), PurePosixPath(point)))
    return sorted(found)


def _below(group: PurePosixPath, inner: PurePosixPath) -> PurePosixPath:
    """A group's path from the mount point on. In a container the mount shows a part of the tree."""
    return group.relative_to(inner) if group.is_relative_to(inner) else PurePosixPath()


def _upwards(top: Path, below: PurePosixPath) -> list[Path]:
    return [top / folder for folder in (below, *below.parents) if (top / folder).is_dir()]
