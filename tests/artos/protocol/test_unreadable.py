"""Files and messages that hold something else than they should are faults of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from artos.errors import BadMessage, CheckpointFault, ImageUnusable, Refused
from artos.protocol import invocations
from artos.runs.checkpoint import read_manifest
from artos.runs.orders import RunOrder, read_order
from head.daemon.options import head_options
from head.daemon.store import Store
from head.records.run_folder import RunFolder
from workers.checkpoint.bundle import moved
from workers.checkpoint.images import ImageStore

BROKEN = {
    "nothing": b"",
    "half": b'{"format": 1,',
    "no UTF-8": b'{"format":1,"file":"\xae"}',
    "deep": b'{"format":1,"file":' + b"[" * 100_000,
}

MAIL = {
    BROKEN["nothing"]: b"",
    BROKEN["half"]: b"\x82\xa4type",
    BROKEN["no UTF-8"]: b"\x81\xa4type\xa1\xae",
    BROKEN["deep"]: b"\x82\xa4type\xa4Done\xa1x" + b"\x91" * 100_000,
}
"""The same in MessagePack."""


def facts(folder: Path, content: bytes) -> None:
    store = ImageStore(folder / "images", 1 << 20)
    (store.folder / "actor-0").mkdir()
    (store.folder / "actor-0" / "facts.json").write_bytes(content)
    image = ImageStore(store.folder, 1 << 20).image("actor-0")
    assert image is not None
    image.check()


def places(folder: Path, content: bytes) -> None:
    store = ImageStore(folder / "images", 1 << 20)
    image = store.begin("actor-0")
    (image.folder / "moved.json").write_bytes(content)
    moved(image)


def manifest(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    read_manifest(folder)


def config(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    RunFolder.resume(folder)


def state(folder: Path, content: bytes) -> None:
    (folder / "state.json").write_bytes(content.replace(b"file", b"runs"))
    with Store(folder) as store:
        store.load()


def database(folder: Path, content: bytes) -> None:
    (folder / "state.sqlite").write_bytes(content)
    with Store(folder) as store:
        store.load()


def order(folder: Path, content: bytes) -> None:
    (folder / "order").write_bytes(content)
    read_order(folder / "order", RunOrder)


def options(folder: Path, content: bytes) -> None:
    (folder / "head.toml").write_bytes(content or b"=")
    head_options(folder / "head.toml", {})


def mail(folder: Path, content: bytes) -> None:
    del folder
    invocations.decode_from_member(MAIL[content])


READERS: dict[Callable[[Path, bytes], None], type[Exception]] = {
    facts: ImageUnusable,
    places: ImageUnusable,
    manifest: CheckpointFault,
    config: CheckpointFault,
    state: Refused,
    database: Refused,
    order: BadMessage,
    options: Refused,
    mail: BadMessage,
}


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_a_fault_of_its_own(
    reader: Callable[[Path, bytes], None], content: str, tmp_path: Path
) -> None:
    with pytest.raises(READERS[reader]):
        reader(tmp_path, BROKEN[content])
