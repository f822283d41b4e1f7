"""An actor moves house: its image and its block travel as one file to another worker (A25).

What a process sleeps on travels with it: a semaphore's memory counts who sleeps there, so on a
fresh one a sleeper that moved in would never be woken. The weights do not travel: a moved actor
binds those of the worker it came to before anything else.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from artos.buffer.board import Board
from artos.buffer.segment import Segment, free_bytes
from artos.errors import ImageUnusable
from artos.plan import Site
from workers.criu.facts import Facts, Host, faults
from workers.images import Image, ImageStore

_FORMAT = 1
_MANIFEST, _BLOCK, _IMAGE, _SUMS = "parcel.json", "block", "image/", "sums.json"
_PARTIAL = ".partial"
_MOVED = "moved.json"
"""Lies in an image that came from elsewhere: the home its process still has in mind."""


class Home(msgspec.Struct, frozen=True):
    """Where an actor lives: its site, whose member it is, and the file it logs to."""

    site: Site
    log: str

    @property
    def shared(self) -> dict[str, Path]:
        """The files that its memory is mapped from, by what they are."""
        site = self.site
        block = site.block_path(site.member - 1)
        return {_BLOCK: block, "model": site.model_path, "board": site.board_path}


class Manifest(msgspec.Struct, frozen=True):
    """What a parcel begins with: all that has to be known to refuse it before the bulk arrives.

    ``home`` is the one that the image names, ``sizes`` are bytes of the shared files there,
    ``bell`` is the semaphore of the actor's mailbox.
    """

    image: str
    home: Home
    facts: Facts
    sizes: Mapping[str, int]
    bell: bytes
    format: int = _FORMAT


# -- away ------------------------------------------------------------------------------------------


def pack(image: Image, home: Home, target: Path) -> None:
    """Write one file with the image of the actor that lived in ``home``, and with its block.

    The image stays; drop it once the parcel arrived, for there must not be two of one actor.

    Raises:
        ImageUnusable: the image is damaged.
        OSError: the parcel cannot be written; nothing is left of it.
    """
    image.check()
    facts = image.facts
    sizes = {what: path.stat().st_size for what, path in home.shared.items()}
    bell = bytes(_bell(home))
    manifest = Manifest(image.name, _known_home(image) or home, facts, sizes, bell)
    files = {_BLOCK: home.shared[_BLOCK]}
    files |= {f"{_IMAGE}{name}": image.folder / name for name in _travelling(facts)}
    partial = target.with_name(f"{target.name}{_PARTIAL}")
    try:
        with tarfile.open(partial, "w") as tar:
            _write(tar, manifest, files)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _write(tar: tarfile.TarFile, manifest: Manifest, files: Mapping[str, Path]) -> None:
    _add(tar, _MANIFEST, manifest)
    sums = {}
    for name, path in files.items():
        with path.open("rb") as file:
            # Summed as it is written: the cursors in a block may move meanwhile.
            summing = _Summing(file)
            tar.addfile(tar.gettarinfo(arcname=name, fileobj=file), summing)
        sums[name] = summing.sum
    _add(tar, _SUMS, sums)


def _add(tar: tarfile.TarFile, name: str, content: Any) -> None:
    data = msgspec.json.encode(content)
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


# -- in --------------------------------------------------------------------------------------------


def unpack(parcel: Path, store: ImageStore, home: Home, criu: str) -> Image:
    """Move the actor in a parcel into ``home`` on this worker; its image is then ready to restore.

    Its block takes the place of what lies there; model block and board are there already. All or
    nothing: a parcel that is refused changes nothing. ``criu`` is the version that will restore it.
    Until this returns nobody may put a message into the actor's mailbox, and the first one after it
    must have the actor bind weights.

    Raises:
        ImageUnusable: the parcel is damaged, or does not fit this host or home; says why.
        ImageBudget: there is no room for the image.
    """
    with _opened(parcel) as tar:
        manifest = _read(tar, _MANIFEST, Manifest)
        if wrong := misfits(manifest, home, criu):
            raise ImageUnusable(manifest.image, wrong)
        image = store.begin(manifest.image, sum(manifest.facts.files.values()))
        block = home.shared[_BLOCK]
        arrived = block.with_name(f"{block.name}{_PARTIAL}")
        try:
            _receive(tar, manifest, image, arrived)
            (image.folder / _MOVED).write_bytes(msgspec.json.encode(manifest.home))
            _furnish(home, arrived, manifest.bell)
            image.seal(manifest.facts)
        finally:
            image.abandon()  # unless it was sealed
            arrived.unlink(missing_ok=True)
    return image


def misfits(manifest: Manifest, home: Home, criu: str) -> list[str]:
    """Every reason why the actor cannot live in that home on this host, in words."""
    if manifest.format != _FORMAT:
        return [f"its parcel has format {manifest.format}, {_FORMAT} is known here"]
    facts, was = manifest.facts, manifest.home.site
    found = faults(facts, Host.here(criu, facts.host.libraries))
    if (was.member, was.members) != (home.site.member, home.site.members):
        found.append(
            f"it is member {was.member} of {was.members}, "
            f"not {home.site.member} of {home.site.members}"
        )
    for what, path in home.shared.items():
        found += _misfits_of(what, path, manifest.sizes.get(what, 0))
    return found


def _misfits_of(what: str, path: Path, size: int) -> list[str]:
    if path.exists():
        here = path.stat().st_size
        wrong = f"the {what} {path} has {here} bytes, where it comes from {size}"
        return [wrong] if here != size else []
    if what != _BLOCK:
        return [f"there is no {what} {path}"]
    room = free_bytes(path.parent)
    return [f"its block has {size} bytes, {path.parent} has room for {room}"] if size > room else []


def _receive(tar: tarfile.TarFile, manifest: Manifest, image: Image, block: Path) -> None:
    """Copy what comes, in the order it was packed; only then compare the sums."""
    targets = {_BLOCK: block}
    targets |= {f"{_IMAGE}{name}": image.folder / name for name in _travelling(manifest.facts)}
    found = {}
    for name, target in targets.items():
        with _next(tar, name) as source, target.open("wb") as copy:
            summing = _Summing(source)
            shutil.copyfileobj(summing, copy, 1 << 20)
        found[name] = summing.sum
    sums = _read(tar, _SUMS, dict[str, str])
    wrong = [f"{name} is not what was packed" for name in found if sums.get(name) != found[name]]
    if wrong:
        raise ImageUnusable(manifest.image, wrong)


def _furnish(home: Home, arrived: Path, bell: bytes) -> None:
    """Block and mailbox become those that the sleeping process left."""
    block = home.shared[_BLOCK]
    if block.exists():  # in place: others may have it mapped
        Segment.attach(block).memory[:] = Segment.attach(arrived).memory
    else:
        arrived.rename(block)
    _bell(home)[:] = bell


# -- alive again -----------------------------------------------------------------------------------


@contextmanager
def belongings(image: Image, home: Home) -> Iterator[dict[str, int]]:
    """What to restore the image with (``inherit``) in that home, whether it came there or not.

    Open descriptors by the paths that the image names; CRIU maps and opens those instead.
    """
    was = _known_home(image) or home
    with ExitStack() as stack:
        log = stack.enter_context(Path(home.log).open("ab"))
        opened = {was.log: log.fileno()}
        if was != home:
            for what, path in home.shared.items():
                file = stack.enter_context(path.open("r+b"))
                opened[str(was.shared[what])] = file.fileno()
        yield opened


def _known_home(image: Image) -> Home | None:
    """The home that the process in an image has in mind, if it is not where it was taken."""
    try:
        return msgspec.json.decode((image.folder / _MOVED).read_bytes(), type=Home)
    except FileNotFoundError:
        return None


# -- pieces ----------------------------------------------------------------------------------------


class _Summing:
    """A file being read, and the checksum of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sum = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sum.update(data)
        return data

    @property
    def sum(self) -> str:
        return self._sum.hexdigest()


def _travelling(facts: Facts) -> list[str]:
    return [name for name in facts.files if name != _MOVED]


def _bell(home: Home) -> Any:
    """The memory of the semaphore that the actor sleeps on for messages."""
    site = home.site
    return Board.attach(site.board_path, site.members).down(site.member).bell._view


@contextmanager
def _opened(parcel: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(parcel, "r:") as tar:
            yield tar
    except (tarfile.TarError, msgspec.DecodeError) as error:
        raise ImageUnusable(parcel.name, [f"the parcel is damaged ({error})"]) from error


def _next(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    entry = tar.next()
    file = tar.extractfile(entry) if entry is not None and entry.name == name else None
    if file is None:
        found = "nothing" if entry is None else entry.name
        raise tarfile.TarError(f"{found} in the place of {name}")
    return file


def _read(tar: tarfile.TarFile, name: str, kind: type[Any]) -> Any:
    with _next(tar, name) as file:
        return msgspec.json.decode(file.read(), type=kind)
