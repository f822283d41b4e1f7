"""Bundles: an actor's image and the files it needs, as one file for another worker.

A bundle holds the image, the actor's block unless its rows have already been sent, and for a clone
the memory it shares with its template, unless that is brought there apart (``template_memory``). It
also holds the semaphore that the process sleeps on: a
semaphore's memory counts its sleepers, so a restored sleeper would never be woken on a fresh one.
Weights do not travel: the actor binds those of its new worker. Paths may differ there; each file
that the image names is opened at its new place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import SEMAPHORE_BYTES
from artos.buffer.mailbox import Board
from artos.buffer.segment import Segment
from artos.errors import ImageUnusable
from artos.runs.plan import Site
from artos.specs.unreadable import UNREADABLE
from artos.system.regular_file import contents, opened
from workers.checkpoint import template_memory
from workers.checkpoint.bundle_file import packing, unpacking
from workers.checkpoint.criu.opened import opened_in
from workers.checkpoint.facts import Facts, Host, faults
from workers.checkpoint.images import FACTS, Image, ImageStore

_FORMAT = 2
_MANIFEST, _IMAGE = "bundle.json", "image/"
_BLOCK, _MEMORY, _LOG = "block", "memory", "log"
_MOVED = "moved.json"
"""A file in an image from another node: the new place of each file that the image names."""
_SHARED = (_BLOCK, "model", "board")
"""What every actor uses."""
_PARTIAL = ".partial"
_LONGEST_NAME = 200


class Home(msgspec.Struct, frozen=True):
    """Where an actor lives: its site, which says which member it is, and its log file."""

    site: Site
    log: str
    code: str = ""
    """The folder from which the user's modules are imported."""

    @property
    def folder(self) -> Path:
        """The run's shared memory."""
        return Path(os.path.realpath(self.site.folder))

    @property
    def shared(self) -> dict[str, Path]:
        """The files that the actor shares, or may share, with other processes, by kind."""
        site = self.site
        paths = {
            _BLOCK: site.block_path(site.member.rank),
            "model": site.model_path,
            "board": site.board_path,
        }
        others = [site.model_of(each.role) for each in site.members.publishers[1:]]
        others += [site.requests_path(each.role) for each in site.members.servers]
        paths |= {path.name: path for path in others}
        return {what: Path(os.path.realpath(path)) for what, path in paths.items()}


class BundleManifest(msgspec.Struct, frozen=True):
    """The beginning of a bundle: all that is needed to refuse it before the rest is read."""

    image: str
    site: Site
    facts: Facts
    names: Mapping[str, str]
    """The paths that the image names, by kind of file."""
    sizes: Mapping[str, int]
    """Bytes of the shared files, by kind."""
    doorbell: bytes
    """The semaphore of the actor's mailbox."""
    rows: bool = True
    """Whether the block is in the bundle."""
    code: str = ""
    """The folder in which the actor looks for modules it has not imported yet, "": none."""
    memory: str = ""
    """The name of the template's memory if that is not in the bundle."""
    format: int = _FORMAT


# -- packing ---------------------------------------------------------------------------------------


def pack(image: Image, home: Home, target: Path, *, rows: bool = True, without: str = "") -> str:
    """Write a bundle of the image of an actor that lived in ``home``.

    The image stays; drop it once the bundle has arrived, as an actor must not have two images.
    Without ``rows`` the block is left out: the new node's block begins where this one ends. The
    template's memory is left out if it has the name ``without``; returns the name of what was.

    Raises:
        ImageUnusable: the image is damaged, or names files that would stay behind.
        OSError: the bundle cannot be written; nothing is left of it.
    """
    image.check()
    facts, shared, places = image.facts, home.shared, moved(image)
    known = {str(path): what for what, path in shared.items()}
    known[os.path.realpath(home.log)] = _LOG
    # The paths in the image, by kind, of the files that its actor has open or mapped.
    names, stay = dict[str, str](), list[str]()
    for name in opened_in(image.folder):
        now = places.get(name, name)
        if now in known:
            names[known[now]] = name
        elif Path(now).parent == home.folder and now.endswith(f".{_MEMORY}"):
            names[_MEMORY] = name
        elif Path(now).is_relative_to(home.folder):
            stay.append(f"its actor uses {now}, which would stay behind")
    lacks = {*_SHARED, _LOG} - names.keys()
    stay += [f"its actor does not use {path}" for path, what in known.items() if what in lacks]
    if stay:
        raise ImageUnusable(image.name, stay)
    files = dict(shared)
    if _MEMORY in names:
        files[_MEMORY] = Path(places.get(names[_MEMORY], names[_MEMORY]))
    sizes = {what: path.stat().st_size for what, path in files.items()}
    code = home.code if home.code and Path(home.code).is_dir() else ""
    apart = template_memory.path_of(without, home.folder)
    named = template_memory.is_name(without) and _MEMORY in names and apart.exists()
    if not (named and apart.samefile(files[_MEMORY])):
        without = ""
    manifest = BundleManifest(
        image.name, home.site, facts, names, sizes, bytes(_doorbell(home)), rows, code, without
    )
    with packing(target) as bundle:
        bundle.note(_MANIFEST, manifest)
        if rows:
            bundle.file(_BLOCK, shared[_BLOCK])
        if _MEMORY in names and not without:
            bundle.file(_MEMORY, files[_MEMORY])
        for name in _travelling(facts):
            bundle.file(f"{_IMAGE}{name}", image.folder / name)
    return without


# -- unpacking -------------------------------------------------------------------------------------


def unpack(bundle: Path, store: ImageStore, home: Home, criu: str) -> Image:
    """Move the actor in a bundle into ``home`` on this worker; its image is then ready to restore.

    A block in the bundle replaces the one in ``home``; model block and board exist already. A
    bundle that is refused changes nothing. ``criu`` is the version that will restore the image.
    Until this returns, no message may be put into the actor's mailbox; the first one after that
    must have the actor bind weights.

    Raises:
        ImageUnusable: the bundle is damaged, or does not fit this host or home; says why.
        ImageBudget, ShmTooSmall: there is no room for the image, or for the block.
    """
    with unpacking(bundle) as opened:
        manifest = opened.note(_MANIFEST, BundleManifest)
        if wrong := misfits(manifest, home, criu):
            raise ImageUnusable(manifest.image, wrong)
        image = store.begin(manifest.image, sum(manifest.facts.files.values()))
        files = (*([_BLOCK] if manifest.rows else []), *([] if manifest.memory else [_MEMORY]))
        block = home.shared[_BLOCK]
        arriving = {what: block.with_name(f"{block.name}.{what}{_PARTIAL}") for what in files}
        try:
            # In the order in which it was packed; then the checksums are compared.
            for what, path in arriving.items():
                if what in manifest.names:
                    opened.file(what, path, manifest.sizes[what])
            for name in _travelling(manifest.facts):
                size = manifest.facts.files[name]
                opened.file(f"{_IMAGE}{name}", image.folder / name, size)
            if changed := opened.changed():
                differ = [f"{name} differs from what was packed" for name in changed]
                raise ImageUnusable(image.name, differ)
            # The memory is named after its content, so clones of one template share it here too.
            name = manifest.memory or template_memory.name_of(opened.sums.get(_MEMORY, ""))
            memory = template_memory.path_of(name, home.folder)
            # The image says where the files that it names are now.
            places = {**home.shared, _LOG: Path(os.path.realpath(home.log)), _MEMORY: memory}
            moves = {name: str(places[what]) for what, name in manifest.names.items()}
            (image.folder / _MOVED).write_bytes(msgspec.json.encode(moves))
            came = arriving.get(_MEMORY)
            if came is not None and came.exists() and not memory.exists():
                came.rename(memory)
            if _BLOCK in arriving:
                rows = Segment.attach(arriving[_BLOCK])
                # An existing block is overwritten in place: other processes may have it mapped.
                here = Segment.attach(block) if block.exists() else Segment.create(block, len(rows))
                here.memory[:] = rows.memory
            _doorbell(home)[:] = manifest.doorbell
            image.seal(manifest.facts)
        finally:
            image.abandon()  # unless it was sealed
            for path in arriving.values():
                path.unlink(missing_ok=True)
    return image


def misfits(manifest: BundleManifest, home: Home, criu: str) -> list[str]:
    """Every reason why the actor cannot live in ``home`` on this host."""
    if manifest.format != _FORMAT:
        return [f"its bundle has format {manifest.format}, this version reads {_FORMAT}"]
    facts, was, site = manifest.facts, manifest.site, home.site
    found = [*_malformed(manifest), *faults(facts, Host.here(criu, facts.host.libraries))]
    if found:
        return found
    if manifest.code and not Path(manifest.code).is_dir():
        found.append(f"its code folder {manifest.code} does not exist here")
    if (was.member, was.members) != (site.member, site.members):
        found.append(
            f"it is {was.member} of {len(was.members)} members, not {site.member} of "
            f"{len(site.members)}, or their roles differ"
        )
    for what, path in home.shared.items():
        size = manifest.sizes.get(what, 0)
        here = path.stat().st_size if path.exists() else None
        if here is None and not (what == _BLOCK and manifest.rows):
            found.append(f"there is no {what} {path}")
        if here not in (None, size):
            found.append(f"the {what} {path} has {here} bytes here, {size} on its old node")
    if manifest.memory:
        memory = template_memory.path_of(manifest.memory, home.folder)
        if not memory.exists():
            found.append(f"its template's memory {manifest.memory} is not here")
        elif (bytes_here := memory.stat().st_size) != manifest.sizes.get(_MEMORY):
            found.append(f"its template's memory has {bytes_here} bytes here")
    if not found and not manifest.rows:
        rows = ActorBlock.attach(home.shared[_BLOCK]).written
        if rows != facts.step:
            found.append(f"it was taken at row {facts.step}, and its block here is at {rows}")
    return found


def _malformed(manifest: BundleManifest) -> Iterator[str]:
    """Faults of a manifest that ``pack`` would never write."""
    facts, shared = manifest.facts, Home(manifest.site, "").shared.keys()
    known = {*shared, _MEMORY, _LOG}
    if not all(map(_is_name, (manifest.image, *facts.files))):
        yield "it has files outside of its image"
    if strange := {*manifest.names, *manifest.sizes} - known:
        yield f"it names unknown kinds of files: {', '.join(map(repr, sorted(strange)))}"
    if min((*facts.files.values(), *manifest.sizes.values()), default=0) < 0:
        yield "it has files of negative size"
    if missing := {*manifest.names, *shared} - {*manifest.sizes, _LOG}:
        yield f"it gives no sizes for: {', '.join(sorted(missing))}"
    if len(manifest.doorbell) != SEMAPHORE_BYTES:
        yield f"its semaphore has {len(manifest.doorbell)} bytes"
    if manifest.memory and not template_memory.is_name(manifest.memory):
        yield "its template's memory has no such name"
    if "\0" in manifest.code:
        yield "the path of its code has a zero byte"


def _is_name(name: str) -> bool:
    """Whether it is a plain file name that is not reserved."""
    taken = name in ("", ".", "..", FACTS) or name.endswith(_PARTIAL)
    return not taken and len(name) <= _LONGEST_NAME and not {"/", "\0"} & {*name}


# -- restoring -------------------------------------------------------------------------------------


@contextmanager
def belongings(image: Image, home: Home) -> Iterator[dict[str, int]]:
    """The files for restoring the image in ``home``, whether it was moved there or not.

    Open descriptors, by the paths that the image names; CRIU uses them instead (``inherit``).
    """
    log = os.path.realpath(home.log)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(opened(Path(now), "ab" if now == log else "r+b")).fileno()
            for name, now in (moved(image) or {log: log}).items()
        }


def moved(image: Image) -> dict[str, str]:
    """The new places of the files that the image names; empty if the image was not moved.

    Raises:
        ImageUnusable: the list of places cannot be read.
    """
    try:
        return msgspec.json.decode(contents(image.folder / _MOVED), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except UNREADABLE as error:
        raise ImageUnusable(image.name, [f"{_MOVED} cannot be read ({error})"]) from error


# -- pieces ----------------------------------------------------------------------------------------


def _travelling(facts: Facts) -> list[str]:
    return [name for name in facts.files if name != _MOVED]


def _doorbell(home: Home) -> memoryview:
    """The memory of the semaphore that the actor sleeps on for messages."""
    site = home.site
    return Board.attach(site.board_path, site.members).down(site.member).doorbell.memory
