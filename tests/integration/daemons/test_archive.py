"""The user's code as an archive: the same bytes for the same files, nothing unsafe, kept whole."""

from __future__ import annotations

import errno
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.errors import Refused
from artos.system import archives
from artos.system import unpack as unpacking
from artos.system.archives import IGNORE_FILE, Archives, name_of, pack
from artos.system.unpack import unpack
from artos.transport.keys import make_keys


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "nets").mkdir(parents=True)
    (folder / "algo.py").write_text("import nets.small\n")
    (folder / "nets" / "small.py").write_text("width = 64\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "default").symlink_to("nets/small.py")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def tar(*members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def file(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), b"x"


def pax(name: str, **headers: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = headers
    return tar((info, b"x"), kind=tarfile.PAX_FORMAT)


def claiming(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """An archive of one file that says it has so many bytes."""
    info = tarfile.TarInfo("a")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(2 * tarfile.BLOCKSIZE)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


# -- packing ---------------------------------------------------------------------------------------


def test_there_and_back(code: Path, tmp_path: Path) -> None:
    name, content = pack(code)
    unpack(content, tmp_path / "there")
    assert files(tmp_path / "there") == files(code)
    assert (tmp_path / "there" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "there" / "default").readlink() == Path("nets/small.py")
    assert pack(tmp_path / "there") == (name, content)


def test_the_same_files_are_the_same_bytes(code: Path, tmp_path: Path) -> None:
    """Neither time nor place nor the order in which they were written counts."""
    before = pack(code)
    os.utime(code / "algo.py", (1, 1))
    again = tmp_path / "again"
    again.mkdir()
    for name in sorted(files(code), reverse=True):
        if name != "default":
            (again / name).parent.mkdir(exist_ok=True)
            (again / name).write_bytes((code / name).read_bytes())
    (again / "run.sh").chmod(0o700)
    (again / "default").symlink_to("nets/small.py")
    assert pack(again) == before
    (again / "algo.py").write_text("changed\n")
    assert pack(again)[0] != before[0]


def test_what_is_listed_stays_here(code: Path) -> None:
    for name in ("data/big.bin", "nets/data.bin", "notes/a.txt", ".git/HEAD", "__pycache__/a.pyc"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text("x")
    (code / "runs" / "one").mkdir(parents=True)
    (code / "runs" / "one" / "run.lock").write_text("")
    (code / IGNORE_FILE).write_text("data/  # large\nnotes/*.txt\n\n# that is all\n")
    assert sent(code) == [
        ".artosignore", "algo.py", "default", "nets/data.bin", "nets/small.py", "run.sh",
    ]  # fmt: skip


def sent(folder: Path) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(pack(folder)[1])) as archive:
        return archive.getnames()


def test_environments_and_hidden_folders_stay_here(code: Path) -> None:
    """A checkout that somebody works in, with its environments under whatever name."""
    before = sent(code)
    for name in ("env/pyvenv.cfg", "tools/py311/conda-meta/history", ".venvs/ray/pyvenv.cfg",
                 ".tox/py311/lib/torch.so", "nets/.cache/data.bin"):  # fmt: skip
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text("x")
    assert sent(code) == before


def test_a_hidden_folder_can_be_taken_back(code: Path) -> None:
    for name in (".assets/map.txt", ".cache/map.txt", ".git/HEAD"):
        (code / name).parent.mkdir()
        (code / name).write_text("x")
    (code / IGNORE_FILE).write_text("!.assets/\n!.git/  # never\n")
    hidden = [name for name in sent(code) if name.startswith(".")]
    assert hidden == [IGNORE_FILE, ".assets/map.txt"]


def test_a_head_of_the_same_folder_and_its_keys_stay_here(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_keys(code / "keys")
    (code / "runs/.head").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        with monkeypatch.context() as there:
            there.chdir(code / "runs/.head")  # the whole path may be too long for a socket
            listening.bind("head")
        names = sent(code)
    keys = [name for name in names if name.startswith("keys/")]
    assert keys == ["keys/head.key", "keys/nodes/any.key", "keys/users/owner.key"], "no secret ones"
    assert not any(".head" in name for name in names)


def test_what_is_too_large_is_named(code: Path) -> None:
    (code / "weights.bin").write_bytes(bytes(3_000_000))
    with pytest.raises(Refused, match=r"3\.0 MB.*/weights\.bin \(3\.0 MB\)") as refused:
        pack(code, limit_mb=1)
    assert str(code / IGNORE_FILE) in str(refused.value)


def test_a_folder_of_many_files_is_named_as_one(code: Path) -> None:
    """No file of it is large."""
    (code / "frames").mkdir()
    for number in range(30):
        (code / "frames" / f"{number}.bin").write_bytes(bytes(100_000))
    (code / "weights.bin").write_bytes(bytes(200_000))
    with pytest.raises(Refused, match=r"are /frames/ \(30 files, 3\.0 MB\), /weights\.bin \(0"):
        pack(code, limit_mb=1)


def test_all_that_cannot_travel_is_named_at_once(code: Path) -> None:
    (code / "out").symlink_to("../elsewhere")
    (code / "root").symlink_to("/etc")
    os.mkfifo(code / "pipe")
    with pytest.raises(Refused) as refused:
        pack(code)
    assert [fault.split()[0] for fault in refused.value.faults] == ["out", "pipe", "root"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"caf\xe9\n", None], ids=["BOM", "Latin", "folder"]
)
def test_a_list_that_cannot_be_read_is_named(code: Path, content: bytes | None) -> None:
    listed = code / IGNORE_FILE
    if content is None:
        listed.mkdir()
    else:
        listed.write_bytes(content)
    with pytest.raises(Refused, match=rf"{IGNORE_FILE} cannot be read"):
        pack(code)


def test_what_goes_while_it_is_packed_is_named(code: Path, monkeypatch) -> None:
    def gone(path: Path) -> bytes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    monkeypatch.setattr(archives, "contents", gone)
    with pytest.raises(Refused, match=r"algo\.py cannot be read \(No such file"):
        pack(code)


# -- unpacking -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../escaped"),
        tarfile.TarInfo("/tmp/escaped"),
        tarfile.TarInfo("a/../../escaped"),
        *map(tarfile.TarInfo, (".", "..", "./", "/", "//", "", "a/..", "a/.", "./a", "a//b")),
        link(".", "algo.py"),
        link("up", ".."),
        link("folder", "", tarfile.DIRTYPE),
        link("out", "../escaped"),
        link("a/out", "../../escaped"),
        link("root", "/etc"),
        link("hard", "algo.py", tarfile.LNKTYPE),
        link("device", "", tarfile.CHRTYPE),
        link("pipe", "", tarfile.FIFOTYPE),
    ],
    ids=lambda info: f"{info.name}->{info.linkname}",
)
def test_what_is_unsafe_is_refused_before_anything_is_written(member, tmp_path: Path) -> None:
    there = tmp_path / "there"
    with pytest.raises(Refused, match="archive"):
        unpack(tar((tarfile.TarInfo("algo.py"), b"fine"), (member, b"")), there)
    assert not there.exists()
    assert not (tmp_path / "escaped").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    content = tar((link("d", "."), b""), (link("d/l", "../x"), b""))
    with pytest.raises(Refused, match="through a link"):
        unpack(content, tmp_path / "there")


LOOP = [(link(f"l{n}", f"l{(n + 1) % 3}"), b"") for n in range(3)]
CHAIN = [(link(f"l{n}", f"l{n + 1}"), b"") for n in range(50)]
HOSTILE = {
    "a file in the place of a folder": tar(file("a"), file("a/b")),
    "a folder in the place of a file": tar(file("a/b"), file("a")),
    "a name twice": tar(file("a"), file("b"), file("a")),
    "a name that is too long": tar(file("n" * 256)),
    "a path that is too long": tar(file("/".join(["d" * 200] * 20))),
    "folders beyond all measure": tar(file("/".join("d" * 70))),
    "another way to write a name": tar(file("a"), file("./a")),
    "a NUL in the path": pax("a", path="a\0b"),
    "a path that hides behind another": pax("a", path="../a"),
    "a sparse file of 4 TiB": pax("a", **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                                         "GNU.sparse.realsize": str(1 << 42)}),
    "an old sparse file": claiming(1 << 42, tarfile.GNUTYPE_SPARSE),
    "more than there is": claiming(1 << 42),
    "less than nothing": pax("a", size="-5"),
    "links in a circle": tar(*LOOP),
    "a chain of links without end": tar(*CHAIN),
    "links that lead out together": tar(
        (link("d/e/up", "../.."), b""), (link("out", "d/e/up/../.."), b"")
    ),
    "a link to nothing": tar((link("l", ""), b"")),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_an_archive_that_cannot_be_is_written(kind: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    with pytest.raises(Refused, match="archive"):
        unpack(HOSTILE[kind], there)
    assert [*tmp_path.iterdir()] == []


def test_links_to_one_another_may_stay_within(tmp_path: Path) -> None:
    content = tar(
        file("d/e/f"), (link("up", "d/e/.."), b""), (link("f", "up/e/f"), b""),
        (link("dangling", "d/nothing"), b""),
    )  # fmt: skip
    unpack(content, tmp_path / "there")
    assert (tmp_path / "there" / "f").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["n" * 245, "n" * 255, "ü" * 127])
def test_names_may_be_as_long_as_the_kernel_allows(name: str, code: Path, tmp_path: Path) -> None:
    (code / name).write_text("x")
    unpack(pack(code)[1], tmp_path / "there")
    (tmp_path / "there" / name).write_text("changed")
    unpack(pack(code)[1], tmp_path / "there")
    assert files(tmp_path / "there") == files(code)


def test_too_many_files_are_refused_on_both_sides(code: Path, tmp_path: Path, monkeypatch) -> None:
    content = pack(code)[1]
    monkeypatch.setattr(unpacking, "_MOST_FILES", 3)
    with pytest.raises(Refused, match="more than 3 files"):
        unpack(content, tmp_path / "there")
    with pytest.raises(Refused, match="more than 3 files"):
        pack(code)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second file on nothing can be written."""
    write, written = Path.write_bytes, []

    def fails(path: Path, content: bytes) -> int:
        written.append(path)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fails)


def test_nothing_half_made_is_left_when_the_disk_is_full(code: Path, tmp_path, monkeypatch) -> None:
    content = pack(code)[1]
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(OSError, match="No space"):
            unpack(content, tmp_path / "there")
    assert not (tmp_path / "there").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["code"]
    unpack(content, tmp_path / "there")
    assert files(tmp_path / "there") == files(code)


@given(st.binary(max_size=2000))
def test_what_is_no_archive_is_refused(tmp_path_factory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("there")
    try:
        unpack(content, folder / "code")
    except Refused:
        assert not (folder / "code").exists()


# -- keeping ---------------------------------------------------------------------------------------


def test_a_node_keeps_what_it_got(code: Path, tmp_path: Path) -> None:
    name, content = pack(code)
    kept = Archives(tmp_path / "kept")
    assert name not in kept
    kept.put(name, content)
    assert name in kept
    folder = kept.unpacked(name)
    assert files(folder) == files(code)
    assert Archives(tmp_path / "kept").unpacked(name) == folder


def test_what_was_changed_on_the_node_is_put_right(code: Path, tmp_path: Path) -> None:
    name, content = pack(code)
    kept = Archives(tmp_path / "kept")
    kept.put(name, content)
    folder = kept.unpacked(name)
    (folder / "algo.py").write_text("tampered\n")
    (folder / "nets" / "small.py").unlink()
    untouched = (folder / "run.sh").stat().st_mtime_ns
    assert files(kept.unpacked(name)) == files(code)
    assert (folder / "run.sh").stat().st_mtime_ns == untouched, "others may be using it"


def test_only_what_the_name_says_is_kept(code: Path, tmp_path: Path) -> None:
    name, content = pack(code)
    kept = Archives(tmp_path / "kept")
    with pytest.raises(Refused, match="damaged"):
        kept.put(name, content + b"more")
    assert name not in kept
    kept.put(name, content)
    (tmp_path / "kept" / f"{name}.tar").write_bytes(content[:-1] + b"!")
    with pytest.raises(Refused, match="damaged"):
        kept.unpacked(name)
    assert kept.content(name) == b"", "so it is asked for again"
    assert name not in kept


def test_what_is_needed_stays_however_long_ago_it_was_unpacked(tmp_path: Path) -> None:
    kept, names = Archives(tmp_path / "kept"), [name_of(bytes([n])) for n in range(17)]
    for number, name in enumerate(names):
        kept.put(name, bytes([number]))
    for name in names[:2]:
        os.utime(tmp_path / "kept" / f"{name}.tar", (1.0, 1.0))
    kept.put(name_of(b"new"), b"new", {names[0]})
    assert [name in kept for name in names[:3]] == [True, False, True]


def test_names_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    """A name comes from a peer: it is a hash, not a path."""
    secret = tmp_path / "secret.tar"
    secret.write_bytes(b"x")
    kept = Archives(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    assert kept.content("../secret") == b""
    assert secret.exists()
    assert name_of(b"x") not in kept
