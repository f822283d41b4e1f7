"""The full parts of a journal: files named after the lines in them, packed one after the other."""

from __future__ import annotations

import io
import logging
import os
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import lz4.frame

from artos.system.durable import sync_folder
from artos.system.regular_file import opened

_PACKED, _MAGIC = ".lz4", b"\x04\x22\x4d\x18"
PIECE = 256 << 10
"""Bytes that are packed in a step: half a millisecond's work."""
_BLOCK = 64 << 10  # that is unpacked at a time

_log = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Part:
    """Lines ``first`` to ``end`` (exclusive, counted from 0) of a journal; no more are appended.

    They are in the file ``plain``, or ``packed`` beside it. Both are there if their packer was
    killed just before it removed the plain one: they say the same. What is packed can be unpacked
    from the middle: its blocks do not need each other.
    """

    first: int
    end: int
    plain: Path

    @classmethod
    def of(cls, journal: Path, first: int, end: int) -> Part:
        """These lines of a journal."""
        name = f"{journal.stem}-{first:012}-{end:012}{journal.suffix}"
        return cls(first, end, journal.with_name(name))

    @property
    def packed(self) -> Path:
        """The file that they are in once they are packed: a frame of LZ4."""
        return self.plain.with_name(f"{self.plain.name}{_PACKED}")

    @property
    def file(self) -> Path:
        """The one of both that is read."""
        return self.packed if self.packed.exists() else self.plain

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open what is in the file that they are in, even if they are packed meanwhile.

        Raises:
            OSError: it is not there, cannot be read, or is something else than a file.
        """
        with self.stored() as file:
            yield _unpacking(file) if is_packed(file) else file

    @contextmanager
    def stored(self) -> Iterator[BinaryIO]:
        """Open that file as it is stored; raises what ``opened`` raises."""
        with ExitStack() as stack:
            yield self._enter(stack)

    def _enter(self, stack: ExitStack) -> BinaryIO:
        with suppress(FileNotFoundError):
            return stack.enter_context(opened(self.packed))
        with suppress(FileNotFoundError):
            return stack.enter_context(opened(self.plain))
        # It was packed between these two looks.
        return stack.enter_context(opened(self.packed))


def is_packed(file: BinaryIO) -> bool:
    """Whether a part's file, as it is stored, is a frame of LZ4."""
    return os.pread(file.fileno(), len(_MAGIC), 0) == _MAGIC


def _unpacking(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(cast(io.RawIOBase, lz4.frame.open(file)), _BLOCK)


def parts(journal: Path) -> list[Part]:
    """The parts of a journal, oldest first; the lines after these are in the journal's own file."""
    return sorted({part for _, part in _found(journal)})


def files(journal: Path) -> set[Path]:
    """The files that a journal is in, and the one that a killed packer may have left."""
    return {journal, _draft(journal)} | {file for file, _ in _found(journal)}


def _found(journal: Path) -> Iterator[tuple[Path, Part]]:
    stem, suffix, packed = map(re.escape, (journal.stem, journal.suffix, _PACKED))
    name = re.compile(rf"{stem}-(\d+)-(\d+){suffix}({packed})?")
    for file in journal.parent.iterdir():
        if found := name.fullmatch(file.name):
            part = Part.of(journal, int(found[1]), int(found[2]))
            if file in (part.plain, part.packed):
                yield file, part


def _draft(journal: Path) -> Path:
    return journal.with_name(f".{journal.name}{_PACKED}.tmp")


def packer() -> lz4.frame.LZ4FrameCompressor:
    """Packs a part."""
    return lz4.frame.LZ4FrameCompressor(
        block_size=lz4.frame.BLOCKSIZE_MAX256KB, block_linked=False, content_checksum=True
    )


def packing(journal: Path, unpacked: deque[Part]) -> Generator[None]:
    """Packs the parts that are handed to it, a piece with each step, without end.

    At once it would take longer than the loop of a run may stand still. A process that is killed
    in between leaves the plain part, which the next one packs. So does an error, which is logged.
    """
    while True:
        if unpacked:
            part, draft = unpacked.popleft(), _draft(journal)
            frame = packer()
            try:
                draft.unlink(missing_ok=True)
                try:
                    with opened(part.plain) as source, draft.open("xb") as file:
                        file.write(frame.begin())
                        while piece := source.read(PIECE):
                            file.write(frame.compress(piece))
                            yield
                        file.write(frame.flush())
                        file.flush()
                        os.fsync(file.fileno())
                    draft.replace(part.packed)
                except BaseException:
                    draft.unlink(missing_ok=True)
                    raise
                sync_folder(part.packed.parent)
                part.plain.unlink()
            except OSError as error:
                _log.warning("%s stays as it is: it cannot be packed (%s)", part.plain, error)
        yield
