"""Two workers between which bundles go, without a process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from artos.buffer.mailbox import Board
from artos.runs.plan import Site
from artos.specs.members import ACTORS, Member, Members
from workers.checkpoint.bundle import Home, unpack
from workers.checkpoint.criu.opened import FILES, file_entry
from workers.checkpoint.facts import Facts
from workers.checkpoint.images import Image, ImageStore

CRIU = "4.1.1"
MEGABYTE = 1 << 20
BLOCK = 3 * 4096


class Side:
    """A worker as far as bundles know it: a home with shared files, and images."""

    def __init__(self, folder: Path, *reads: str) -> None:
        shared = folder / "shared"
        shared.mkdir(parents=True)
        code = folder / "code"
        code.mkdir()
        site = Site(str(shared), Member(ACTORS), Members.of_run(1))
        self.home = Home(site, str(folder / "log"), str(code), reads)
        self.store = ImageStore(folder / "images", 100 * MEGABYTE)
        self.block, self.model = self.home.shared["block"], self.home.shared["model"]
        self.board = Board.create(self.home.shared["board"], site.members)
        self.memory = shared / "template.memory"
        for path in (self.model, *map(site.model_of, reads)):
            path.write_bytes(bytes(4096))
        self.doorbell = self.board.down(Member(ACTORS)).doorbell

    @property
    def used(self) -> list[Path]:
        """The files that an actor here uses, a clone."""
        return [*self.home.shared.values(), Path(self.home.log), self.memory]

    def image(self, *more: Path, clone: bool = True) -> Image:
        """An image of an actor that also uses ``more`` files, and its block."""
        self.memory.write_bytes(bytes(MEGABYTE) + b"warm")
        self.block.write_bytes(b"rows" * (BLOCK // 4))
        image = self.store.begin("actor-0")
        (image.folder / "pages-1.img").write_bytes(b"page" * (MEGABYTE // 2))
        list_files(image, [*(self.used if clone else self.used[:-1]), *more])
        image.seal(Facts.of(os.getpid(), CRIU, block=str(self.block), actor=0, step=9))
        return image

    def unpack(self, bundle: Path) -> Image:
        return unpack(bundle, self.store, self.home, CRIU)

    def listing(self) -> dict[str, bytes]:
        """Everything that lies here."""
        folder = self.store.folder.parent
        return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def list_files(image: Image, paths: Sequence[Path]) -> None:
    """Write down in the image, as CRIU would, what its process has open or mapped."""
    owner = {"uid": 0, "euid": 0, "signum": 0, "pid_type": 0, "pid": 0}
    with (image.folder / FILES).open("wb") as file:
        file.write(bytes(8))
        for number, path in enumerate((*paths, Path("/dev/null")), 1):
            reg = {"id": number, "flags": 2, "pos": 0, "fown": owner, "name": str(path)}
            entry = file_entry()(type="REG", id=number, reg=reg).SerializeToString()
            file.write(len(entry).to_bytes(4, "little") + entry)
