"""CRIU's log in words; lines as CRIU 4 writes them."""

from __future__ import annotations

import re

import pytest

from workers.checkpoint.criu.log import culprit, error_lines


@pytest.mark.parametrize(
    ("line", "words", "remedy"),
    [
        ("(00.1) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using "
         "--tcp-established option.", "TCP connection", "close it"),
        ("(00.1) Error (criu/sk-unix.c:815): unix: Can't dump half of stream unix connection.",
         "Unix socket", "close it"),
        ("(00.1) Error (criu/files-ext.c:98): Can't dump file 7 of that type [20666] (chr 195:255)",
         r"descriptor 7.*chr 195:255.*GPU", "--set park=memory"),
        ("(00.1) Error (criu/files-ext.c:98): Can't dump file 9 of that type [600] "
         "(unknown anon_inode:[io_uring])", "io_uring", "close it"),
        ("(00.1) Error (criu/proc_parse.c:98): handle_device_vma plugin failed: No such file or "
         "directory", "GPU context", "close it"),
        ("(00.1) Error (criu/files-reg.c:2215): File dev/shm/x.log has bad size 12 (expect 4)",
         r"/dev/shm/x\.log changed.*size", ""),
        ("(00.1) Error (criu/image.c:1): write failed: No space left on device",
         "filesystem of the images is full", "--set images="),
        ("(00.1) Error (criu/cr-dump.c:1): ptrace failed: Operation not permitted",
         "lacks privileges", "artos doctor"),
    ],
)  # fmt: skip
def test_known_errors_are_told_in_words_and_with_a_remedy(
    line: str, words: str, remedy: str
) -> None:
    found = culprit(f"(00.0) Warn  (criu/x.c:1): before\n{line}\n")
    assert re.search(words, found.words)
    assert remedy in found.remedy


def test_an_unknown_error_is_quoted_without_its_decoration() -> None:
    text = "(00.1) Warn  (a.c:1): x\n(00.2) Error (criu/new.c:3): a new sort of trouble\n"
    assert culprit(text) == ("a new sort of trouble", "")


def test_noise_is_not_taken_for_the_culprit() -> None:
    noise = "(00.0) Error (criu/rlimit.c:9): rlimit: Can't setup RLIMIT_NOFILE for self: x\n"
    assert culprit(noise).words == "CRIU does not say"
    assert "RLIMIT" not in error_lines(noise)


def test_the_lines_round_each_error_are_quoted() -> None:
    lines = [f"(00.{number}) Warn  (a.c:1): line {number}" for number in range(20)]
    lines[10] = "(00.10) Error (b.c:2): here"
    assert error_lines("\n".join(lines)).splitlines() == lines[8:13]


def test_a_log_without_error_gives_its_last_words() -> None:
    assert error_lines("one\ntwo\nthree\n") == "two\nthree"
    assert error_lines("") == ""
