"""The kernel's control groups that this process is in: version 1, version 2 or both at once.

Functions here take ``root``, the folder that stands for ``/``: tests give them a made-up tree.
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
    own: dict[str, PurePosixPath] = {}  # groups by controller; of version 2 under the empty name
    for line in text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), PurePosixPath(path))
    mounts = []  # of trees: kind, options, which part of the tree, and where
    for line in text(root / "proc/self/mountinfo").splitlines():
        mount, _, device = line.partition(" - ")
        kind, _, options = device.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            part, place = mount.split(" ")[3:5]
            mounts.append((kind, options, PurePosixPath(part), PurePosixPath(place)))
    found = []
    for kind, options, inner, point in sorted(mounts):
        name = "" if kind == "cgroup2" else controller
        if name not in own or (name and name not in options.split(",")):
            continue
        top, group = root / point.relative_to("/"), own[name]
        # In a container the mount shows a part of the tree, with this group at its top.
        below = group.relative_to(inner) if group.is_relative_to(inner) else PurePosixPath()
        found += [top / each for each in (below, *below.parents) if (top / each).is_dir()]
    return found


def text(path: Path) -> str:
    """A small file of the kernel's; empty if it is not there."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def numbers(listed: str) -> Iterator[int]:
    """The numbers in a list as the kernel writes it: ``0-2,5`` is 0, 1, 2, 5."""
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
