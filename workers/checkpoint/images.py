"""Stores process images on tmpfs or disk: complete or absent, within a budget, for one workload."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_64_hexdigest

from artos.errors import ImageBudget, ImageUnusable
from artos.specs.unreadable import UNREADABLE
from artos.system import private_folder
from artos.system.regular_file import contents, opened
from artos.system.shm import free_bytes
from workers.checkpoint.facts import Facts, Host, faults

FACTS = "facts.json"
_PARTIAL = ".partial"
_LOGS = ("*.log", "stats-*")
_PAGES = "pages-"
_FACTS_ROOM = 256 << 10
_SMALL_FILES = 1 << 20
"""Bytes an image takes in addition to its memory pages; a generous estimate."""


class Image:
    """A folder with the image of one process: partial until sealed, then never written again."""

    def __init__(self, store: ImageStore, name: str, *, sealed: bool = False) -> None:
        self._store, self.name, self.sealed = store, name, sealed
        self._restores = 0

    @property
    def folder(self) -> Path:
        """Where its files are now; sealing renames the folder."""
        return self._store.folder / (self.name if self.sealed else f"{self.name}{_PARTIAL}")

    @property
    def facts(self) -> Facts:
        """Facts about its process and host.

        Raises:
            ImageUnusable: the facts cannot be read.
        """
        try:
            return msgspec.json.decode(contents(self.folder / FACTS), type=Facts)
        except (OSError, *UNREADABLE) as error:
            raise ImageUnusable(self.name, [f"its facts cannot be read ({error})"]) from error

    def files(self) -> dict[str, int]:
        """Bytes of each of its files by name, without logs."""
        logs = {path for pattern in _LOGS for path in self.folder.glob(pattern)}
        return {
            path.name: path.stat().st_size
            for path in self.folder.iterdir()
            if path not in logs and path.is_file() and path.name != FACTS
        }

    def seal(self, facts: Facts) -> None:
        """Declare the image complete: note sizes and checksums, then rename the folder in one step.

        An older image of that name is dropped. The budget is not checked again, because this is
        the only copy of its process.
        """
        sizes = self.files()
        facts = msgspec.structs.replace(facts, files=sizes, sums=self._sums(sizes))
        with opened(self.folder / FACTS, "r+b") as file:
            file.write(msgspec.json.encode(facts))
            file.truncate()
        self._store._sealed(self, sum(sizes.values()))

    def abandon(self, log: str = "") -> None:
        """Remove the files of a dump that failed; its ``log`` is kept next to the images."""
        if not self.sealed:
            self._store._abandoned(self, log)

    def check(self, criu: str | None = None) -> None:
        """Check that the image is complete and fits this host, and CRIU's version if it is given.

        Raises:
            ImageUnusable: lists every file missing, truncated or changed, and every mismatch.
        """
        if not self.sealed:
            raise ImageUnusable(self.name, ["it was never finished"])
        facts = self.facts
        here = Host.here(facts.host.criu if criu is None else criu, facts.host.libraries)
        wrong = [] if facts.files else ["it has no files"]
        present = self.files() if facts.files else {}
        for name, size in facts.files.items():
            if name not in present:
                wrong.append(f"{name} is missing")
            elif present[name] != size:
                wrong.append(f"{name} has {present[name]} bytes instead of {size}")
        if not wrong:
            sums = self._sums(facts.files)
            wrong = [f"{name} was changed" for name in sums if facts.sums.get(name) != sums[name]]
        if wrong := [*wrong, *faults(facts, here)]:
            raise ImageUnusable(self.name, wrong)

    def _sums(self, names: Iterable[str]) -> dict[str, str]:
        """A checksum of each file except memory pages, which would take too long."""
        return {
            name: xxh3_64_hexdigest(contents(self.folder / name))
            for name in names
            if not name.startswith(_PAGES)
        }

    def next_name(self, kind: str, suffix: str = "") -> str:
        """A new name in its folder for a file of one restore; several restores may run at once."""
        self._restores += 1
        return f"{kind}-{self._restores}{suffix}"

    def __repr__(self) -> str:
        return f"<Image {self.name} {'sealed' if self.sealed else 'partial'}>"


class ImageStore:
    """The images of one workload in ``folder``, together at most ``budget`` bytes.

    Invariant: a folder without the partial suffix holds a complete image. The budget is checked
    against estimates before dumps, so an estimate that was too low can exceed it.
    """

    def __init__(self, folder: Path, budget: int) -> None:
        self.folder, self.budget = folder, budget
        private_folder.keep(folder)
        self._images: dict[str, Image] = {}
        self._sizes: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        # Images that an earlier owner sealed are taken over, those it did not finish are removed.
        for path in self.folder.iterdir():
            if path.name.endswith(_PARTIAL) or not path.is_dir():
                _remove(path)
            else:
                image = Image(self, path.name, sealed=True)
                self._keep(image, sum(image.files().values()))

    def begin(self, name: str, estimate: int = 0) -> Image:
        """An empty partial image, whose dump will take ``estimate`` bytes.

        An older image called ``name`` stays until the new one is sealed.

        Raises:
            ImageBudget: the budget or the filesystem has no room for it.
            OSError: the filesystem has just become full.
        """
        needed = estimate + _SMALL_FILES
        room = min(self.budget - self.used, free_bytes(self.folder))
        if needed > room:
            raise ImageBudget(name, needed, room, self.budget, str(self.folder))
        image = Image(self, name)
        _remove(image.folder)
        image.folder.mkdir(mode=0o700)
        try:
            # Room for the facts: once the process has ended, sealing must not fail.
            with (image.folder / FACTS).open("xb") as facts:
                os.posix_fallocate(facts.fileno(), 0, _FACTS_ROOM)
        except OSError:
            _remove(image.folder)
            raise
        self._pending[name] = needed
        return image

    def image(self, name: str) -> Image | None:
        """The sealed image of that name."""
        return self._images.get(name)

    @property
    def images(self) -> tuple[Image, ...]:
        """All sealed images."""
        return tuple(self._images.values())

    @property
    def used(self) -> int:
        """Bytes of the sealed images, plus the estimates for images being dumped."""
        return sum(self._sizes.values()) + sum(self._pending.values())

    def drop(self, name: str) -> None:
        """Remove an image, sealed or partial. No error if there is none."""
        self._pending.pop(name, None)
        self._sizes.pop(name, None)
        self._images.pop(name, None)
        for path in (self.folder / name, self.folder / f"{name}{_PARTIAL}"):
            _remove(path)

    def close(self) -> None:
        """Remove all images. May be called twice."""
        self._images, self._sizes, self._pending = {}, {}, {}
        private_folder.remove(self.folder)

    def _sealed(self, image: Image, size: int) -> None:
        final = self.folder / image.name
        # Remove first: a folder cannot be renamed over one that is not empty.
        _remove(final)
        image.folder.rename(final)
        image.sealed = True
        self._pending.pop(image.name, None)
        self._keep(image, size)

    def _keep(self, image: Image, size: int) -> None:
        self._images[image.name], self._sizes[image.name] = image, size

    def _abandoned(self, image: Image, log: str) -> None:
        self._pending.pop(image.name, None)
        _remove(image.folder)
        if log:
            with suppress(OSError):  # the filesystem may be full
                (self.folder / f"{image.name}.log").write_text(log)

    def __repr__(self) -> str:
        return f"<ImageStore {self.folder} {len(self._images)} images {self.used} bytes>"


def estimate(pid: int) -> int:
    """Bytes an image of the process will take: its private memory (0 if the process is gone)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    rows = (line.split() for line in lines if line.startswith(("RssAnon:", "VmSwap:")))
    return sum(int(row[1]) << 10 for row in rows)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
