"""The image store and the facts beside an image; no CRIU needed."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from artos.errors import ImageBudget, ImageUnusable
from workers.checkpoint.build_id import build_id, mapped_files
from workers.checkpoint.facts import Facts, Host, faults, features_of
from workers.checkpoint.images import Image, ImageStore, estimate

MEGABYTE = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images", 100 * MEGABYTE)


@pytest.fixture
def facts() -> Facts:
    return Facts.of(os.getpid(), "4.1.1", actor=2, step=10, policy_version=7)


def written(image: Image, size: int = 1000) -> Image:
    """A partial image with pages and a log in it, as CRIU leaves one."""
    (image.folder / "pages-1.img").write_bytes(bytes(size))
    (image.folder / "core-1.img").write_bytes(b"core")
    (image.folder / "dump.log").write_text("log")
    return image


def test_an_image_is_there_when_it_is_sealed_and_not_before(
    store: ImageStore, facts: Facts
) -> None:
    image = written(store.begin("actor-1"))
    assert store.image("actor-1") is None
    assert not (store.folder / "actor-1").exists()
    image.seal(facts)
    assert store.image("actor-1") is image
    image.check("4.1.1")
    assert image.facts.files == {"pages-1.img": 1000, "core-1.img": 4}
    assert image.facts.step == 10
    assert store.used == 1004


def test_a_new_image_takes_the_place_of_the_old_one(store: ImageStore, facts: Facts) -> None:
    written(store.begin("actor-1")).seal(facts)
    image = written(store.begin("actor-1"), size=2000)
    assert store.image("actor-1") is not image
    image.seal(facts)
    assert store.image("actor-1") is image
    assert [path.name for path in store.folder.iterdir()] == ["actor-1"]
    assert store.used == 2004


def test_an_abandoned_image_leaves_only_its_log(store: ImageStore) -> None:
    image = written(store.begin("actor-1", MEGABYTE))
    assert store.used > MEGABYTE
    image.abandon("what CRIU said")
    assert [path.name for path in store.folder.iterdir()] == ["actor-1.log"]
    assert store.used == 0
    with pytest.raises(ImageUnusable, match="never finished"):
        image.check()


def test_a_sealed_image_cannot_be_abandoned(store: ImageStore, facts: Facts) -> None:
    image = written(store.begin("actor-1"))
    image.seal(facts)
    image.abandon()
    image.check()


def test_the_budget_counts_images_and_dumps_under_way(store: ImageStore, facts: Facts) -> None:
    written(store.begin("one"), 40 * MEGABYTE).seal(facts)
    store.begin("two", 40 * MEGABYTE)
    with pytest.raises(ImageBudget, match=r"needs about 43\.0 MB and 19\.9 MB of 104") as over:
        store.begin("three", 40 * MEGABYTE)
    assert over.value.room < over.value.needed <= over.value.budget
    assert not (store.folder / "three.partial").exists()
    store.drop("one")
    store.begin("three", 40 * MEGABYTE)


def test_a_filesystem_without_room_refuses_before_the_dump(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images", 1 << 62)
    with pytest.raises(ImageBudget):
        store.begin("one", 1 << 61)


def test_the_only_copy_is_kept_even_if_it_is_larger_than_estimated(
    store: ImageStore, facts: Facts
) -> None:
    image = written(store.begin("one", MEGABYTE), 101 * MEGABYTE)
    image.seal(facts)
    image.check()
    with pytest.raises(ImageBudget, match=r"0\.0 MB of"):
        store.begin("two")


def test_dropping_takes_whole_and_partial_ones(store: ImageStore, facts: Facts) -> None:
    written(store.begin("one")).seal(facts)
    written(store.begin("one"))
    store.drop("one")
    store.drop("one")
    assert list(store.folder.iterdir()) == []
    assert store.image("one") is None
    assert store.used == 0


def test_closing_removes_everything(store: ImageStore, facts: Facts) -> None:
    written(store.begin("one")).seal(facts)
    store.close()
    store.close()
    assert not store.folder.exists()


def test_a_store_takes_over_what_was_sealed_and_forgets_the_rest(
    store: ImageStore, facts: Facts
) -> None:
    written(store.begin("whole")).seal(facts)
    written(store.begin("half"))
    again = ImageStore(store.folder, store.budget)
    image = again.image("whole")
    assert image is not None
    image.check("4.1.1")
    assert again.image("half") is None
    assert again.used == 1004
    assert [path.name for path in store.folder.iterdir()] == ["whole"]


@pytest.mark.parametrize("name", ["pages-1.img", "core-1.img"])
def test_missing_and_truncated_files_are_all_told(
    store: ImageStore, facts: Facts, name: str
) -> None:
    image = written(store.begin("one"))
    image.seal(facts)
    os.truncate(image.folder / name, 1)
    with pytest.raises(ImageUnusable, match=f"{name} has 1 bytes instead of"):
        image.check()
    (image.folder / name).unlink()
    with pytest.raises(ImageUnusable, match=f"{name} is missing"):
        image.check()


def test_a_changed_file_is_told(store: ImageStore, facts: Facts) -> None:
    """Memory pages aside, of which there are megabytes."""
    image = written(store.begin("one"))
    image.seal(facts)
    (image.folder / "core-1.img").write_bytes(b"c0re")
    (image.folder / "pages-1.img").write_bytes(b"1" * 1000)
    with pytest.raises(ImageUnusable, match=r"here: core-1.img was changed: the actor"):
        image.check()


def test_without_readable_facts_an_image_is_of_no_use(store: ImageStore, facts: Facts) -> None:
    image = written(store.begin("one"))
    image.seal(facts)
    (image.folder / "facts.json").write_text('{"half":')
    with pytest.raises(ImageUnusable, match="facts cannot be read"):
        image.check()


def test_the_folder_is_only_for_its_owner(store: ImageStore) -> None:
    image = store.begin("one")
    assert store.folder.stat().st_mode & 0o077 == 0
    assert image.folder.stat().st_mode & 0o077 == 0


# -- facts -------------------------------------------------------------------------------------


def test_every_mismatch_is_told_in_words() -> None:
    libraries = {"/a.so": "01", "/b.so": "02", "/c.so": "03"}
    was = Host("4.1.1", "6.1.0", "x86_64", 1, libraries, ("avx2", "avx512f", "sse"))
    here = Host("4.2.1", "6.9.0", "aarch64", 2, {"/a.so": "01", "/b.so": "ff"}, ("avx2", "more"))
    found = faults(Facts(was), here)
    assert len(found) == 7
    for words in ("CRIU is 4.2.1", "kernel is 6.9.0", "aarch64", "layout of blocks is 2",
                  "/b.so is another build", "/c.so is gone", "lacks avx512f sse"):  # fmt: skip
        assert any(words in each for each in found)
    assert faults(Facts(was), was) == []


def test_the_features_of_a_processor_are_those_the_kernel_names(tmp_path: Path) -> None:
    cpus = tmp_path / "cpuinfo"
    cpus.write_text("processor\t: 0\nflags\t\t: sse avx2\nbugs\t\t: some\n")
    assert features_of(cpus) == ("avx2", "sse")
    arm = tmp_path / "arm"
    arm.write_text("BogoMIPS\t: 50\nFeatures\t: fp asimd\n")
    assert features_of(arm) == ("asimd", "fp")
    neither = tmp_path / "neither"
    neither.write_text("processor\t: 0\n")
    assert features_of(neither) == ()


def test_a_build_id_is_what_the_linker_wrote() -> None:
    library = next(path for path in mapped_files(os.getpid()) if "libc.so" in path)
    found = build_id(library)
    assert found is not None
    assert len(bytes.fromhex(found)) == 20


def test_a_file_without_build_id_is_known_by_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "plain.so"
    file.write_bytes(b"not an ELF file")
    first = build_id(file)
    assert first is not None
    assert "size 15" in first
    file.write_bytes(b"another one altogether")
    assert build_id(file) not in (None, first)
    file.unlink()
    assert build_id(file) is None


def test_a_damaged_elf_header_is_no_reason_to_fail(tmp_path: Path) -> None:
    file = tmp_path / "cut.so"
    file.write_bytes(b"\x7fELF\x02" + bytes(10))
    assert "size 15" in str(build_id(file))


def test_facts_survive_their_file(facts: Facts) -> None:
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


def test_the_estimate_is_about_the_memory_a_process_has_for_itself() -> None:
    before = estimate(os.getpid())
    # Not from the heap, which may have as much that is free but not given back to the system.
    with mmap.mmap(-1, 64 * MEGABYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as ballast:
        ballast.write(b"\1" * len(ballast))
        assert estimate(os.getpid()) - before > 60 * MEGABYTE
    assert estimate(2**22 + 1) == 0


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 8 MB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no filesystem can be mounted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_dump_that_took_the_last_room_is_sealed_all_the_same(crowded: Path, facts: Facts) -> None:
    """Its process ended with the dump: the image is all there is of it."""
    store = ImageStore(crowded / "images", 64 << 20)
    image = written(store.begin("actor-1"))
    with (crowded / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))
    image.seal(facts)
    image.check("4.1.1")
    assert image.facts.step == 10
