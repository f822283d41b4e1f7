"""What carries actors out of an executor and into it; actors, images and the run are made up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import PATIENCE

from artos.clock import ManualClock
from artos.errors import ImageUnusable, NoImage
from artos.protocol import steering
from artos.protocol.message import Message, Refusal
from artos.runtime.held import Held
from artos.specs.members import Member
from workers.actors.arrival import Arrival
from workers.executor.migration import Migration

IMAGE, MEMORY = b"what it was", b"0123456789abcdef"


class Images:
    """Where bundles lie; packing and unpacking go on once ``may`` is set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.may = threading.Event()
        self.may.set()
        self.fault: Exception | None = None
        self.dropped: list[object] = []
        self.begun = threading.Event()
        self.here, self.awaited = set[str](), set[str]()

    def bundle(self, number: int) -> Path:
        return self._folder / f"{number}.bundle"

    def pack(self, image: object, home: object, number: int, without: str) -> str:
        del image, home
        self._work()
        self.bundle(number).write_bytes(IMAGE)
        return without if without in self.awaited else ""

    def unpack(self, number: int, home: object) -> object:
        content = self.bundle(number).read_bytes()
        self.bundle(number).unlink()
        self._work()
        return home, content

    def pack_memory(self, memory: Path, number: int) -> str:
        self._work()
        self.bundle(number).write_bytes(MEMORY)
        return memory.name

    def unpack_memory(self, number: int) -> str:
        self._work()
        self.here.add(name := self.bundle(number).read_bytes().decode())
        self.bundle(number).unlink()
        return name

    def has_memory(self, name: str) -> bool:
        return name in self.here

    def await_no_longer(self, name: str) -> None:
        self.awaited.discard(name)

    def _work(self) -> None:
        self.begun.set()
        assert self.may.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault

    def drop(self, image: object) -> None:
        self.dropped.append(image)


class Site:
    """An executor's migration, what it says to the run, and what it has its actors do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = Images(folder)
        self.clock = ManualClock()
        self.said: list[Message] = []
        self.done: list[tuple[object, ...]] = []
        self.came: list[Arrival] = []
        self.shelved: Any = "image"
        self._rung = threading.Event()
        self.moves: Any = self
        self.memory = folder / MEMORY.decode()
        actors: Any = self
        self.migration = Migration(
            actors, self.held_path, self.said.append, self._rung.set, self._arrived, self.clock
        )
        self.migration.memories.let_in()

    # -- ProcessManager ----------------------------------------------------------------------------

    def home_of(self, member: Member) -> object:
        return f"home of {member}"

    def image_of(self, member: Member) -> object:
        if isinstance(self.shelved, Exception):
            raise self.shelved
        return self.shelved

    def held_path(self, member: Member) -> Path:
        return self.folder / f"held-{member}"

    def hand_over(self, member: Member) -> bool:
        if isinstance(self.shelved, NoImage) and "starting" in self.shelved.why:
            raise self.shelved
        return self.held_path(member).exists()

    def expect_image(self, member: Member) -> None:
        self.done.append(("expect", member))

    def take_in(self, member: Member, image: object) -> None:
        self.done.append(("take in", member, image))

    def give_up_image(self, member: Member, *, came: bool = False) -> None:
        self.done.append(("give_up_image", member, *(["came"] * came)))

    def arrivals(self) -> list[Arrival]:
        came, self.came = self.came, []
        return came

    # --------------------------------------------------------------------------------------------

    def _arrived(self, member: Member, seconds: float) -> None:
        self.done.append(("arrived", member, seconds))

    def work(self) -> None:
        """Wait for what the migration's thread does."""
        assert self._rung.wait(PATIENCE)
        self._rung.clear()
        self.migration.advance()

    def told(self) -> list[Message]:
        said, self.said[:] = [*self.said], []
        return said

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def come(self, member: Member, number: int) -> None:
        """A whole bundle of a member is here and being unpacked."""
        self.migration.fetch(member, number, held=False)
        self.migration.take_piece(steering.BundlePiece(number, 0, len(IMAGE), IMAGE))
        assert self.images.begun.wait(PATIENCE)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    there = Site(tmp_path)
    yield there
    there.images.may.set()
    there.migration.close()
    assert there.files() == []


# -- out -------------------------------------------------------------------------------------------


def test_who_moves_out_is_packed_and_handed_over(site: Site) -> None:
    site.shelved = None
    site.migration.pack(steering.Pack(2, 7))
    site.migration.advance()
    assert site.told() == []
    site.shelved = "image"
    site.migration.advance()
    site.migration.send_piece(steering.ReadPiece(7))
    assert site.told() == [steering.BundlePiece(7, 0)]
    site.work()
    assert site.told() == [steering.Packed(7)]
    site.migration.send_piece(steering.ReadPiece(7, 5))
    assert site.told() == [steering.BundlePiece(7, 5, len(IMAGE), IMAGE[5:])]
    assert site.files() == ["7.bundle"]
    site.migration.forget(2)
    assert site.files() == []
    site.migration.send_piece(steering.ReadPiece(7, 5))
    assert site.told() == [steering.BundlePiece(7, 5)]


def test_who_has_no_image_is_not_packed(site: Site) -> None:
    site.shelved = NoImage(1, "it is starting")
    site.migration.pack(steering.Pack(2, 7))
    assert site.told() == [steering.Packed(7, "there is no image of actor 1: it is starting")]


@pytest.mark.parametrize("image", [True, False])
def test_who_has_no_image_moves_by_what_it_holds(site: Site, image: bool) -> None:
    """Also where one could be made, and would not fit where the actor goes."""
    if image:
        site.shelved = NoImage(1, "its environment holds a socket")
    site.migration.pack(steering.Pack(2, 7, image))
    assert site.told() == [], "it has not ended yet"
    Held(b"mid-episode").write(site.held_path(2))
    site.migration.advance()
    site.work()
    assert site.told() == [steering.Packed(7, held=True)]
    size = site.images.bundle(7).stat().st_size
    site.migration.send_piece(steering.ReadPiece(7))
    (piece,) = site.told()
    assert isinstance(piece, steering.BundlePiece)
    site.held_path(2).unlink()
    site.migration.forget(2)
    site.migration.fetch(3, 8, held=True)
    site.told()
    site.migration.take_piece(msgspec.structs.replace(piece, number=8, size=size))
    site.work()
    assert site.done == [("expect", 3), ("give_up_image", 3, "came")]
    assert Held.read(site.held_path(3)) == Held(b"mid-episode")
    site.held_path(3).unlink()


def test_who_cannot_say_what_it_holds_is_not_packed(site: Site) -> None:
    Held(why="cannot pickle 'lock' object").write(site.held_path(2))
    site.migration.pack(steering.Pack(2, 7, image=False))
    site.work()
    assert site.told() == [steering.Packed(7, "cannot pickle 'lock' object")]
    site.held_path(2).unlink()


def test_a_bundle_that_is_no_such_file_is_refused(site: Site) -> None:
    site.migration.fetch(2, 7, held=True)
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE))
    site.work()
    (_, refused) = site.told()
    assert isinstance(refused, steering.BundleRejected)
    assert "it did not say what it held" in refused.why
    assert site.done == [("expect", 2), ("give_up_image", 2)]


def test_what_cannot_be_packed_is_said(site: Site) -> None:
    site.images.fault = OSError("no room")
    site.migration.pack(steering.Pack(2, 7))
    site.migration.advance()
    site.work()
    assert site.told() == [steering.Packed(7, "no room")]


def test_who_stays_after_all_leaves_no_bundle(site: Site) -> None:
    site.images.may.clear()
    site.migration.pack(steering.Pack(2, 7))
    site.migration.advance()
    assert site.images.begun.wait(PATIENCE)
    site.migration.remove_bundle(2)
    site.images.may.set()
    site.work()
    site.migration.close()
    assert site.files() == []
    assert site.told() == []


def test_nobody_reads_beyond_the_end(site: Site) -> None:
    site.migration.pack(steering.Pack(2, 7))
    site.migration.advance()
    site.work()
    site.told()
    site.migration.send_piece(steering.ReadPiece(7, 99))
    refusal, piece = site.told()
    assert isinstance(refusal, Refusal)
    assert piece == steering.BundlePiece(7, 99)


# -- in --------------------------------------------------------------------------------------------


def test_who_moves_in_is_fetched_unpacked_and_brought_to_life(site: Site) -> None:
    site.migration.fetch(2, 7, held=False)
    assert site.told() == [steering.ReadPiece(7, 0)]
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE[:5]))
    assert site.told() == [steering.ReadPiece(7, 5)]
    site.migration.take_piece(steering.BundlePiece(7, 5, len(IMAGE), IMAGE[5:]))
    site.work()
    assert site.done == [("expect", 2), ("take in", 2, ("home of 2", IMAGE))]
    site.came = [Arrival(2, 3.0, "")]
    site.migration.advance()
    assert site.done[2:] == [("arrived", 2, 3.0)]
    assert site.told() == []
    assert site.files() == []


def test_a_process_that_does_not_come_to_life_is_told_of(site: Site) -> None:
    site.come(2, 7)
    site.work()
    site.told()
    site.came = [Arrival(2, 3.0, "no such file")]
    site.migration.advance()
    assert site.told() == [steering.BundleRejected(7, "no such file")]
    assert ("arrived", 2, 3.0) not in site.done


def test_what_does_not_fit_here_is_told_of(site: Site) -> None:
    site.images.fault = ImageUnusable("actor-1", ["the kernel is another"])
    site.come(2, 7)
    site.work()
    _, unfit = site.told()
    assert isinstance(unfit, steering.BundleRejected)
    assert "the kernel is another" in unfit.why
    assert site.done == [("expect", 2), ("give_up_image", 2)]


def test_a_bundle_that_is_not_there_any_more(site: Site) -> None:
    site.migration.fetch(2, 7, held=False)
    site.told()
    site.migration.take_piece(steering.BundlePiece(7, 0))
    assert site.told() == [steering.BundleRejected(7, "bundle 7: the file is no longer there")]
    assert site.done == [("expect", 2), ("give_up_image", 2)]
    site.migration.take_piece(steering.BundlePiece(7, 0, 3, b"abc"))
    assert site.told() == []


def test_a_piece_that_never_comes_is_waited_for_thirty_seconds(site: Site) -> None:
    site.migration.fetch(2, 7, held=False)
    site.clock.advance(29.0)
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE[:5]))
    site.clock.advance(29.0)
    site.migration.advance()
    assert site.told() == [steering.ReadPiece(7, 0), steering.ReadPiece(7, 5)]
    site.clock.advance(1.0)
    site.migration.advance()
    assert site.told() == [steering.BundleRejected(7, "no piece of its bundle came for 30 s")]
    assert site.done == [("expect", 2), ("give_up_image", 2)]


def test_two_are_fetched_at_a_time_and_the_others_wait_for_their_turn(site: Site) -> None:
    for number in (7, 8, 9):
        site.migration.fetch(number, number, held=False)
    assert site.told() == [steering.ReadPiece(7, 0), steering.ReadPiece(8, 0)]
    site.clock.advance(29.0)
    site.migration.take_piece(steering.BundlePiece(8, 0, len(IMAGE), IMAGE))
    assert site.told() == [steering.ReadPiece(9, 0)]
    site.clock.advance(1.0)
    site.migration.advance()
    assert site.told() == [steering.BundleRejected(7, "no piece of its bundle came for 30 s")]


def test_who_is_ended_while_it_is_fetched_leaves_nothing(site: Site) -> None:
    site.migration.fetch(2, 7, held=False)
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE[:5]))
    site.migration.forget(2)
    assert site.files() == []
    assert site.done == [("expect", 2)]


def test_who_is_ended_while_it_is_unpacked_leaves_nothing(site: Site) -> None:
    site.images.may.clear()
    site.come(2, 7)
    threading.Timer(0.05, site.images.may.set).start()
    site.migration.forget(2)
    assert site.images.dropped == [("home of 2", IMAGE)]
    site.work()
    assert site.done == [("expect", 2)]


def test_an_image_that_is_being_restored_is_for_the_process_manager_to_drop(site: Site) -> None:
    site.come(2, 7)
    site.work()
    site.migration.forget(2)
    assert site.images.dropped == []


def test_an_executor_that_closes_in_the_middle_leaves_nothing(site: Site) -> None:
    site.migration.pack(steering.Pack(3, 6))
    site.migration.advance()
    site.work()
    site.migration.fetch(2, 7, held=False)
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE[:5]))
    assert site.files() == ["6.bundle", "7.bundle"]
    site.migration.close()
    assert site.files() == []


# -- memory that several share ---------------------------------------------------------------------


def offered(site: Site) -> None:
    """The memory is fetched, whole and being unpacked."""
    site.migration.memories.fetch(9)
    assert site.told() == [steering.ReadPiece(9)]
    site.migration.take_piece(steering.BundlePiece(9, 0, len(MEMORY), MEMORY))


def test_memory_is_packed_once_and_left_out_of_the_bundles_of_actors(site: Site) -> None:
    site.migration.memories.pack(9)
    site.work()
    assert site.told() == [steering.Packed(9, memory=MEMORY.decode())]
    site.migration.send_piece(steering.ReadPiece(9))
    assert site.told() == [steering.BundlePiece(9, 0, len(MEMORY), MEMORY)]
    assert site.files() == [], "the run has all of it"
    site.migration.pack(steering.Pack(2, 7, without=MEMORY.decode()))
    site.migration.pack(steering.Pack(3, 8, without="of another node"))
    site.work()
    while len(site.said) < 2:
        site.work()
    assert site.told() == [steering.Packed(7, memory=MEMORY.decode()), steering.Packed(8)]
    site.migration.forget(2)
    site.migration.forget(3)


def test_memory_that_the_run_does_not_fetch_is_not_kept_for_it(site: Site) -> None:
    site.migration.memories.pack(9)
    site.work()
    site.clock.advance(30.0)
    site.migration.advance()
    assert site.files() == []
    site.told()
    site.migration.send_piece(steering.ReadPiece(9))
    assert site.told() == [steering.BundlePiece(9, 0)]


def test_memory_that_was_packed_here_is_here(site: Site) -> None:
    """An actor that left, and came back before it was elsewhere."""
    site.migration.memories.pack(9)
    site.work()
    site.images.here.add(MEMORY.decode())
    site.told()
    site.migration.memories.fetch(9)
    site.clock.advance(60.0)
    site.migration.advance()
    assert site.told() == [steering.MemoryHere(9)]
    assert site.images.awaited == {MEMORY.decode()}


def test_memory_waits_until_what_is_made_here_has_its_room(site: Site) -> None:
    site.migration.memories._lets_in = False
    offered(site)
    site.clock.advance(31.0)
    site.migration.advance()
    assert site.told() == []
    assert not site.images.begun.is_set()
    site.migration.memories.let_in()
    site.work()
    assert site.told() == [steering.MemoryHere(9)]


def test_memory_that_there_is_not_is_told_of(site: Site) -> None:
    site.images.fault = FileNotFoundError("template.memory")
    site.migration.memories.pack(9)
    site.work()
    assert site.told() == [steering.Packed(9, "template.memory")]


def test_memory_that_is_here_is_not_fetched_again(site: Site) -> None:
    offered(site)
    site.migration.memories.fetch(9)
    assert site.told() == [], "it is on its way"
    site.work()
    assert site.told() == [steering.MemoryHere(9)]
    site.migration.memories.fetch(9)
    assert site.told() == [steering.MemoryHere(9)]
    site.images.here.clear()
    site.migration.memories.fetch(9)
    assert site.told() == [steering.ReadPiece(9)], "it was removed, as nobody needed it"


def test_an_actor_waits_for_the_memory_that_it_needs(site: Site) -> None:
    site.migration.fetch(2, 7, held=False, memory=9)
    assert site.told() == [steering.ReadPiece(9), steering.ReadPiece(7)]
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE))
    site.clock.advance(29.0)
    site.migration.advance()
    assert not site.images.begun.is_set()
    site.migration.take_piece(steering.BundlePiece(9, 0, len(MEMORY), MEMORY))
    site.work()
    while not site.done[1:]:
        site.work()
    assert site.told() == [steering.MemoryHere(9)]
    assert site.done[1] == ("take in", 2, (f"home of {2}", IMAGE))


@pytest.mark.parametrize("how", ["gone", "late", "damaged"])
def test_an_actor_whose_memory_does_not_come_is_not_waited_for(site: Site, how: str) -> None:
    site.migration.fetch(2, 7, held=False, memory=9)
    site.migration.take_piece(steering.BundlePiece(7, 0, len(IMAGE), IMAGE))
    site.told()
    site.images.fault = ImageUnusable("image", ["its memory is not here"])
    if how == "late":
        site.clock.advance(30.0)
        site.migration.advance()
    else:
        content = MEMORY if how == "damaged" else b""
        site.migration.take_piece(steering.BundlePiece(9, 0, len(content), content))
        site.migration.advance()
    while not site.done[1:]:
        site.work()
    (memory, bundle) = site.told()
    assert isinstance(memory, steering.MemoryHere)
    assert memory.why
    assert bundle == steering.BundleRejected(7, str(site.images.fault))


def test_memory_that_nobody_comes_for_is_kept_a_minute(site: Site) -> None:
    offered(site)
    site.work()
    assert site.images.awaited == {MEMORY.decode()}
    site.clock.advance(60.0)
    site.migration.advance()
    assert not site.images.awaited
