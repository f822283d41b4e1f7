"""Bundles: what is in them, where it goes, and everything for which one is refused."""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lz4.frame
import msgspec
import pytest
from elastic import needs_criu
from sides import BLOCK, CRIU, MEGABYTE, Side, list_files

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.errors import CriuUnavailable, ImageUnusable, ShmTooSmall
from artos.specs.keys import DataKey
from artos.specs.members import ACTORS, Member
from workers.checkpoint import template_memory
from workers.checkpoint.bundle import Home, belongings, pack
from workers.checkpoint.bundle_file import Packer, packing, unpacking
from workers.checkpoint.checkpointer import Checkpointer, Progress
from workers.checkpoint.criu.opened import FILES
from workers.checkpoint.criu.unavailable import NoCriu
from workers.checkpoint.facts import Facts
from workers.checkpoint.facts import Host as Hardware
from workers.checkpoint.foreign_memory import unused
from workers.checkpoint.images import Image

pytestmark = needs_criu
FEATURE = (*Hardware.here(CRIU, ()).features, "none")[0]


@pytest.fixture
def here(tmp_path: Path) -> Side:
    return Side(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Side:
    return Side(tmp_path / "there")


@pytest.fixture
def bundle(here: Side, tmp_path: Path) -> Path:
    pack(here.image(), here.home, tmp_path / "bundle")
    return tmp_path / "bundle"


def opened(image: Image, home: Home) -> dict[str, str]:
    """What a restore opens in the place of which path."""
    with belongings(image, home) as inherit:
        return {was: str(Path(f"/proc/self/fd/{now}").readlink()) for was, now in inherit.items()}


def test_image_and_block_arrive_as_they_were(here: Side, there: Side, bundle: Path) -> None:
    image = there.unpack(bundle)
    assert there.store.image("actor-0") is image
    image.check(CRIU)
    assert image.facts.step == 9
    source = here.store.image("actor-0")
    assert source is not None
    for name in source.files():
        assert (image.folder / name).read_bytes() == (source.folder / name).read_bytes()
    assert there.block.read_bytes() == here.block.read_bytes()
    assert not list(there.block.parent.glob("*.partial"))


def test_a_block_that_lies_there_is_filled_in_place(there: Side, bundle: Path) -> None:
    there.block.write_bytes(bytes(BLOCK))
    before = there.block.stat().st_ino
    there.unpack(bundle)
    assert there.block.stat().st_ino == before
    assert there.block.read_bytes() == b"rows" * (BLOCK // 4)


def test_rings_that_nobody_heard_yet_travel_with_the_sleeper(
    here: Side, there: Side, tmp_path: Path
) -> None:
    here.doorbell.ring()
    here.doorbell.ring()
    pack(here.image(), here.home, tmp_path / "bundle")
    there.unpack(tmp_path / "bundle")
    assert there.doorbell.drain() == 2


def test_what_the_image_names_is_opened_where_it_is_now(
    here: Side, there: Side, bundle: Path
) -> None:
    moves = opened(there.unpack(bundle), there.home)
    (memory,) = there.home.folder.glob("*.memory")
    assert moves == dict(
        zip(map(str, here.used), map(str, [*there.used[:-1], memory]), strict=True)
    )
    assert memory.read_bytes() == here.memory.read_bytes()
    assert memory.stat().st_blocks * 512 < MEGABYTE, "its zeros are holes"


def test_clones_of_one_template_share_its_memory_there_too(there: Side, bundle: Path) -> None:
    there.unpack(bundle)
    (memory,) = there.home.folder.glob("*.memory")
    before = memory.stat().st_ino
    there.unpack(bundle)
    assert list(there.home.folder.glob("*.memory")) == [memory]
    assert memory.stat().st_ino == before


def test_the_memory_of_a_template_goes_with_its_last_clone(there: Side, bundle: Path) -> None:
    """A clone may be an image, as it came or as it was dumped here again, or a process."""
    there.memory.write_bytes(b"of a template of this node")
    image = there.unpack(bundle)
    (came,) = (path for path in there.memory.parent.glob("*.memory") if path != there.memory)

    def unneeded(*pids: int) -> list[Path]:
        return unused(there.memory.parent, there.store.images, pids)

    assert unneeded() == []
    there.store.drop(image.name)
    assert unneeded() == [came]
    again = there.store.begin("actor-0")
    list_files(again, [came])
    again.seal(Facts.of(os.getpid(), CRIU))
    assert unneeded() == []
    there.store.close()
    with came.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ):
        assert unused(there.memory.parent, (), [os.getpid()]) == []
    assert unused(there.memory.parent, (), [os.getpid()]) == [came]


def test_an_actor_that_is_no_clone_has_its_memory_in_its_image(
    here: Side, there: Side, bundle: Path
) -> None:
    pack(here.image(clone=False), here.home, bundle)
    assert opened(there.unpack(bundle), there.home).keys() == set(map(str, here.used[:-1]))
    assert not list(there.home.folder.glob("*.memory"))


def test_an_actor_may_be_sent_on_without_having_lived_there(
    here: Side, there: Side, bundle: Path, tmp_path: Path
) -> None:
    image = there.unpack(bundle)
    pack(image, there.home, bundle)
    third = Side(tmp_path / "third")
    moves = opened(third.unpack(bundle), third.home)
    assert list(moves) == list(map(str, here.used))
    assert all(path.startswith(str(tmp_path / "third")) for path in moves.values())


def test_an_image_that_never_moved_gets_only_its_log(here: Side) -> None:
    assert opened(here.image(), here.home) == {here.home.log: here.home.log}


@pytest.fixture
def light(here: Side, tmp_path: Path) -> Path:
    """A bundle without the block; the actor was at row 9."""
    image = here.image()
    begin_at(here, 0)
    pack(image, here.home, tmp_path / "light", rows=False)
    return tmp_path / "light"


def begin_at(side: Side, row: int) -> bytes:
    """Have a block there whose first row is ``row``; its bytes."""
    side.block.unlink(missing_ok=True)
    ActorBlock.create(side.block, BlockSpec(0, (DataKey("x"),), 8, 1), base=row, term=2)
    return side.block.read_bytes()


def test_rows_that_are_elsewhere_stay_behind(there: Side, light: Path) -> None:
    block = begin_at(there, 9)
    image = there.unpack(light)
    image.check(CRIU)
    assert there.block.read_bytes() == block
    assert str(there.block) in opened(image, there.home).values()


def test_an_image_of_another_row_than_the_block_begins_with_is_refused(
    there: Side, light: Path
) -> None:
    begin_at(there, 8)
    with pytest.raises(ImageUnusable, match="it was taken at row 9, and its block here is at 8"):
        there.unpack(light)
    there.block.unlink()
    with pytest.raises(ImageUnusable, match="there is no block"):
        there.unpack(light)
    assert there.store.used == 0


# -- what is refused -------------------------------------------------------------------------------


def change(was: bytes, into: bytes) -> Callable[[Path, Side], None]:
    def harm(bundle: Path, there: Side) -> None:
        del there
        data = lz4.frame.decompress(bundle.read_bytes())
        assert was in data
        bundle.write_bytes(lz4.frame.compress(data.replace(was, into, 1)))

    return harm


def cut(bundle: Path, there: Side) -> None:
    os.truncate(bundle, bundle.stat().st_size // 2)


def drop_the_sums(bundle: Path, there: Side) -> None:
    data = lz4.frame.decompress(bundle.read_bytes())
    bundle.write_bytes(lz4.frame.compress(data[: data.rindex(b"sums.json")]))


def say_nothing(bundle: Path, there: Side) -> None:
    bundle.write_bytes(b"")


def remove_the_board(bundle: Path, there: Side) -> None:
    there.home.shared["board"].unlink()


def remove_the_code(bundle: Path, there: Side) -> None:
    (bundle.parent / "here" / "code").rmdir()


def grow_the_model(bundle: Path, there: Side) -> None:
    there.model.write_bytes(bytes(8192))


def shrink_the_block(bundle: Path, there: Side) -> None:
    there.block.write_bytes(bytes(4096))


def be_another_member(bundle: Path, there: Side) -> None:
    site = msgspec.structs.replace(there.home.site, member=Member(ACTORS, 1))
    there.home = msgspec.structs.replace(there.home, site=site)


def forge(**changes: Any) -> Callable[[Path, Side], None]:
    """Say something else of what comes, with checksums that are right; all the rest is there."""

    def harm(bundle: Path, there: Side) -> None:
        del there
        bulk = bundle.parent / "bulk"
        bulk.mkdir()
        with unpacking(bundle) as old:
            was = old.note("bundle.json", dict[str, Any])
            sizes = {what: was["sizes"][what] for what in ("block", "memory")}
            files = {f"image/{name}": size for name, size in was["facts"]["files"].items()}
            for name, size in (sizes | files).items():
                old.file(name, bulk / name.replace("/", "+"), size)
        facts = was["facts"] | changes.pop("facts", {})
        with packing(bundle) as new:
            new.note("bundle.json", was | {"facts": facts} | changes)
            for name in (*sizes, *files):
                new.file(name, bulk / name.replace("/", "+"))
        shutil.rmtree(bulk)

    return harm


def bomb(bundle: Path, there: Side) -> None:
    """A few KB that claim to be a header of 64 MB."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 64 << 20
    bundle.write_bytes(lz4.frame.compress(header.tobuf() + bytes(64 << 20)))


NAMES = {"block": "b", "model": "m", "board": "o", "log": "l", "memory": "t"}


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (change(b"pagepage", b"pagePage"), r"image/pages-1\.img differs from what was packed"),
        (change(b"rowsrows", b"rowsRows"), "block differs from what was packed"),
        (change(b"warm", b"cold"), "memory differs from what was packed"),
        (change(b'"step":9', b'"step":8'), r"bundle\.json differs from what was packed"),
        (change(b'"pages-1.img"', b'"../es-1.img"'), "it has files outside of its image"),
        (cut, "the bundle is damaged"),
        (drop_the_sums, "the bundle is damaged"),
        (say_nothing, "the bundle is damaged"),
        (remove_the_board, "there is no board"),
        (grow_the_model, "the model .* has 8192 bytes here, 4096 on its old node"),
        (shrink_the_block, "the block .* has 4096 bytes here, 12288 on its old node"),
        (be_another_member, "it is actor 0 of 4 members, not actor 1 of 4"),
        (change(b'"criu":"4.1', b'"criu":"4.2'), "CRIU is 4.1.1, the image was taken with 4.2.1"),
        (remove_the_code, "its code folder .*here/code does not exist here"),
        (change(f'"{FEATURE}"'.encode(), f'"{FEATURE[:-1]}!"'.encode()), "the processor lacks .*!"),
        (change(b'"format":2', b'"format":1'), "its bundle has format 1, this version reads 2"),
        (forge(image=".."), "it has files outside of its image"),
        (forge(image="a\0b"), "it has files outside of its image"),
        (forge(facts={"files": {"..": 1}}), "it has files outside of its image"),
        (forge(facts={"files": {"facts.json": 1}}), "it has files outside of its image"),
        (forge(facts={"files": {FILES: -1}}), "files of negative size"),
        (forge(facts={"files": {FILES: 7}}), "files.img has .* bytes instead of 7"),
        (forge(names=NAMES | {"passwd": "/etc/passwd"}), "unknown kinds of files: 'passwd'"),
        (forge(sizes={}), "no sizes for: block, board, memory, model"),
        (forge(doorbell="AAAA"), "its semaphore has 3 bytes"),
        (forge(code="a\0b"), "the path of its code has a zero byte"),
        (forge(memory="../../etc/pass"), "its template's memory has no such name"),
        (forge(memory="0123456789abcdef"), "its template's memory 0123456789abcdef is not here"),
        (bomb, "it holds more than it declares"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused_and_changes_nothing(
    harm: Callable[[Path, Side], None], words: str, there: Side, bundle: Path
) -> None:
    harm(bundle, there)
    before = there.listing()
    with pytest.raises(ImageUnusable, match=words):
        there.unpack(bundle)
    assert there.listing() == before
    assert there.store.image("actor-0") is None
    assert there.store.used == 0


def test_a_bundle_that_cannot_be_written_leaves_nothing(here: Side, tmp_path: Path) -> None:
    image = here.image()
    with largest_file(1024), pytest.raises(OSError, match="too large"):
        pack(image, here.home, tmp_path / "bundle")
    assert not list(tmp_path.glob("bundle*"))


def test_a_damaged_image_is_not_packed(here: Side, tmp_path: Path) -> None:
    image = here.image()
    os.truncate(image.folder / "pages-1.img", 4096)
    with pytest.raises(ImageUnusable, match=r"pages-1\.img has 4096 bytes"):
        pack(image, here.home, tmp_path / "bundle")
    assert not list(tmp_path.glob("bundle*"))


def test_what_would_stay_behind_holds_an_actor_back(here: Side, tmp_path: Path) -> None:
    other = here.home.folder / "of-the-user"
    with pytest.raises(ImageUnusable, match=f"its actor uses {other}, which would stay behind"):
        pack(here.image(other), here.home, tmp_path / "bundle")


def test_an_image_of_somebody_else_is_not_packed(here: Side, there: Side, tmp_path: Path) -> None:
    there.image()
    with pytest.raises(ImageUnusable, match=f"its actor does not use {there.block}"):
        pack(here.image(), there.home, tmp_path / "bundle")


def test_a_block_that_cannot_be_written_is_no_reason_to_keep_the_image(
    there: Side, bundle: Path
) -> None:
    before = there.listing()
    with largest_file(4096), pytest.raises(OSError, match="too large"):
        there.unpack(bundle)
    assert there.listing() == before
    assert there.store.used == 0


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process may grow beyond that: a write fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- memory that goes ahead ------------------------------------------------------------------------


@pytest.fixture
def clone(here: Side) -> Image:
    return here.image()


@pytest.fixture
def ahead(here: Side, clone: Image, tmp_path: Path) -> tuple[Path, str]:
    """A bundle of the memory of the clone's template, and its name."""
    return tmp_path / "ahead", template_memory.pack(here.memory, tmp_path / "ahead")


def test_memory_that_went_ahead_is_not_in_the_bundles_of_actors(
    here: Side, there: Side, ahead: tuple[Path, str], clone: Image, tmp_path: Path
) -> None:
    bundle, name = ahead
    assert pack(clone, here.home, tmp_path / "bundle", without=name) == name
    assert b"warm" not in lz4.frame.decompress((tmp_path / "bundle").read_bytes())
    assert template_memory.unpack(bundle, there.home.folder) == name
    assert template_memory.unpack(bundle, there.home.folder) == name, "it may come twice"
    memory = there.home.folder / f"{name}.memory"
    assert opened(there.unpack(tmp_path / "bundle"), there.home)[str(here.memory)] == str(memory)
    assert memory.read_bytes() == here.memory.read_bytes()
    assert unused(there.home.folder, there.store.images, ()) == []
    pack(clone, here.home, tmp_path / "whole")
    there.unpack(tmp_path / "whole")
    assert [*there.home.folder.glob("*.memory*")] == [memory], "the same, however it came"


def test_other_memory_than_what_went_ahead_is_in_the_bundle(
    here: Side, there: Side, ahead: tuple[Path, str], tmp_path: Path
) -> None:
    _, name = ahead
    here.memory.unlink()
    image = here.image()
    assert pack(image, here.home, tmp_path / "bundle", without=name) == ""
    assert pack(image, here.home, tmp_path / "bundle", without="0123456789abcdef") == ""
    there.unpack(tmp_path / "bundle")
    assert len([*there.home.folder.glob("*.memory")]) == 1


def test_an_actor_that_comes_back_finds_the_memory_of_its_template(
    here: Side, there: Side, ahead: tuple[Path, str], clone: Image, tmp_path: Path
) -> None:
    bundle, name = ahead
    pack(clone, here.home, tmp_path / "bundle", without=name)
    template_memory.unpack(bundle, there.home.folder)
    moved = there.unpack(tmp_path / "bundle")
    assert pack(moved, there.home, tmp_path / "back", without=name) == name
    again = opened(here.unpack(tmp_path / "back"), here.home)[str(here.memory)]
    assert Path(again).samefile(here.memory)


def test_memory_that_is_still_being_written_is_not_packed(
    here: Side, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.image()

    @contextmanager
    def slowly(target: Path) -> Iterator[Packer]:
        with packing(target) as packer:
            yield packer
        with here.memory.open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(template_memory, "packing", slowly)
    with pytest.raises(OSError, match="still being written"):
        template_memory.pack(here.memory, tmp_path / "ahead")
    assert not (tmp_path / "ahead").exists()
    assert [*here.memory.parent.glob("*.memory")] == [here.memory]


def test_memory_of_another_size_is_not_what_it_needs(
    here: Side, there: Side, ahead: tuple[Path, str], clone: Image, tmp_path: Path
) -> None:
    _, name = ahead
    pack(clone, here.home, tmp_path / "bundle", without=name)
    (there.home.folder / f"{name}.memory").write_bytes(b"warm")
    with pytest.raises(ImageUnusable, match="its template's memory has 4 bytes here"):
        there.unpack(tmp_path / "bundle")


@pytest.mark.parametrize("harm", [change(b"warm", b"cold"), cut, say_nothing, bomb])
def test_memory_that_was_changed_on_its_way_is_refused(
    there: Side, ahead: tuple[Path, str], harm: Callable[[Path, Side], None]
) -> None:
    bundle, _ = ahead
    harm(bundle, there)
    before = there.listing()
    with pytest.raises(ImageUnusable):
        template_memory.unpack(bundle, there.home.folder)
    assert there.listing() == before


def test_memory_that_is_awaited_goes_once_it_is_not(there: Side, ahead: tuple[Path, str]) -> None:
    bundle, name = ahead
    criu = NoCriu(CriuUnavailable("not needed here", ""))
    images = Checkpointer(
        there.home.site, criu, there.store, no_prefix, no_progress, gives_back=False
    )
    images.awaited.add(template_memory.unpack(bundle, there.home.folder))
    images.free_memory(())
    assert images.has_memory(name)
    images.await_no_longer(name)
    assert images.may_free
    images.free_memory(())
    assert not images.has_memory(name)
    assert not images.may_free


def no_prefix(slot: object, **rest: object) -> list[str]:
    raise AssertionError


def no_progress(actor: int) -> Progress:
    raise AssertionError


def test_memory_for_which_there_is_no_room_is_refused(
    there: Side, ahead: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, _ = ahead
    monkeypatch.setattr(template_memory, "free_bytes", lambda _: MEGABYTE)
    before = there.listing()
    with pytest.raises(ShmTooSmall):
        template_memory.unpack(bundle, there.home.folder)
    assert there.listing() == before
