"""The books of the head: invocations answered once and in order, rows acknowledged without gaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from named import EVALUATOR, LEARNER, acting

from artos.protocol.invocations import Claim, Invoke
from head.run.coordination.books import Claims, Invocations, Rounds

(ONE,) = acting(1)


def call(number: int) -> Invoke:
    return Invoke(number, "learner.update", "update")


def test_answers_come_in_order_and_only_to_what_was_asked() -> None:
    books = Invocations()
    for number in (1, 2):
        books.add(LEARNER, call(number), now=0.0)
    assert books.answer(LEARNER, 2) is None, "the oldest comes first"
    assert books.answer(ONE, 1) is None, "another member was not asked"
    assert books.answer(LEARNER, 1) == call(1)
    assert books.answer(LEARNER, 1) is None, "an answer counts once"
    assert (len(books), books.of(LEARNER), books.of(EVALUATOR)) == (1, (call(2),), ())


def test_only_the_invocation_that_runs_can_be_overdue() -> None:
    books = Invocations()
    for number in (1, 2):
        books.add(LEARNER, call(number), now=0.0)
    assert list(books.overdue(now=5.0, seconds=5.0)) == []
    assert list(books.overdue(now=5.1, seconds=5.0)) == [(LEARNER, call(1))]
    books.answer(LEARNER, 1)
    books.touch(LEARNER, now=5.0)
    assert list(books.overdue(now=9.0, seconds=5.0)) == []
    assert list(books.overdue(now=10.1, seconds=5.0)) == [(LEARNER, call(2))]


def test_a_member_that_starts_anew_gets_its_full_time_again() -> None:
    books = Invocations()
    books.add(ONE, call(1), now=0.0)
    books.restamp(ONE, now=100.0)
    books.restamp(EVALUATOR, now=100.0)
    assert list(books.overdue(now=104.0, seconds=5.0)) == []


def test_nobody_is_granted_more_rounds_than_were_ever_granted_at_once() -> None:
    rounds = Rounds({0: 0, 1: 0}, steps=4)
    assert [rounds.grant(0), rounds.grant(0)] == [4, None], "one is still to be sampled"
    rounds.wrote(0, 3)
    assert rounds.grant(0) == 8, "but the last row of it"
    assert rounds.grant(0) is None
    rounds.at_once(3)
    rounds.at_once(2)
    assert [rounds.grant(1) for _ in range(4)] == [4, 8, 12, None]
    assert (rounds.granted, rounds.granted_to(0), rounds.granted_to(1)) == (20, 8, 12)
    assert [rounds.wrote(0, 8), rounds.wrote(0, 8), rounds.written] == [3, 8, 8]


def test_rows_used_out_of_order_are_acknowledged_up_to_the_first_still_in_use() -> None:
    claims = Claims()
    claims.claim("learner.update", [Claim(0, 0, 4), Claim(0, 4, 8), Claim(0, 8, 12)])
    assert claims.done("learner.update", Claim(0, 4, 8)) == (12, 0)
    assert claims.done("learner.update", Claim(0, 0, 4)) == (12, 8)
    assert claims.done("learner.update", Claim(0, 8, 12)) == (12, 12)


def test_rows_of_several_environments_are_acknowledged_once_none_needs_them() -> None:
    """Rows that no claim has, as they were mere resets, are passed over."""
    claims = Claims(envs={"a": 2})
    early, late, other = Claim(0, 0, 4, 0), Claim(0, 5, 9, 0), Claim(0, 0, 7, 1)
    claims.claim("a", [early, late, other])
    assert claims.claimed("a", 0) == 9
    assert claims.done("a", early) == (9, 0)
    assert claims.done("a", other) == (9, 5)
    assert claims.done("a", late) == (9, 7)
    assert claims.consumed() == 7


def test_rows_of_an_earlier_part_of_the_run_are_neither_granted_nor_consumed_once_more() -> None:
    rounds, claims = Rounds({0: 100, 1: 0}, steps=4), Claims(envs={"a": 2}, begun={0: 100})
    assert [rounds.grant(0), rounds.grant(1), rounds.written] == [104, 4, 0]
    assert (claims.claimed("a", 0), claims.claimed("a", 1), claims.consumed()) == (100, 0, 0)
    one, other = Claim(0, 100, 103, 1), Claim(0, 100, 108, 0)
    claims.claim("a", [one])
    assert claims.done("a", one) == (103, 100), "the other environment still needs its rows"
    claims.claim("a", [other])
    assert claims.done("a", other) == (108, 103)
    assert claims.consumed() == 3


def test_consumers_have_cursors_of_their_own_and_the_furthest_counts() -> None:
    claims = Claims()
    for consumer in ("learner.preprocess", "learner.update"):
        claims.claim(consumer, [Claim(0, 0, 4), Claim(1, 0, 4)])
    claims.done("learner.preprocess", Claim(0, 0, 4))
    assert claims.consumed() == 4
    claims.done("learner.update", Claim(0, 0, 4))
    assert claims.consumed() == 4
    claims.done("learner.update", Claim(1, 0, 4))
    assert claims.consumed() == 8


@given(
    handed=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_the_books_agree_with_a_plain_account(handed: list[tuple[str, int]], order: object) -> None:
    books, ends = Claims(), dict[tuple[str, int], int]()
    pending: list[tuple[str, Claim]] = []
    for consumer, actor in handed:
        start = ends.get((consumer, actor), 0)
        ends[consumer, actor] = start + 3
        claim = Claim(actor, start, start + 3)
        books.claim(consumer, [claim])
        pending.append((consumer, claim))
    order.shuffle(pending)  # type: ignore[attr-defined]
    used: dict[tuple[str, int], set[int]] = {}
    for consumer, claim in pending:
        rows = used.setdefault((consumer, claim.actor), set())
        rows.update(range(claim.start, claim.stop))
        gapless = next(step for step in range(len(rows) + 1 + max(rows)) if step not in rows)
        assert books.done(consumer, claim) == (ends[consumer, claim.actor], gapless)
    actors = {actor for _, actor in ends}
    furthest = [max(end for (_, a), end in ends.items() if a == actor) for actor in actors]
    assert books.consumed() == sum(furthest)


def test_what_a_member_has_still_to_do() -> None:
    books = Invocations()
    assert books.last(LEARNER) is None
    assert books.count(LEARNER, "learner.update") == 0
    calls = [Invoke(n, t, "m") for n, t in ((3, "a"), (5, "b"), (7, "a"), (9, "c"))]
    for each in calls:
        books.add(LEARNER, each, now=0.0)
    books.add(ONE, Invoke(11, "d", "m"), now=0.0)
    assert books.last(LEARNER) == calls[-1]
    assert [books.count(LEARNER, trigger) for trigger in "abcd"] == [2, 1, 1, 0]
    assert len(books) == 5
    assert [books.answer(LEARNER, n) for n in (3, 5)] == calls[:2]
    assert len(books) == 3
    assert [books.count(LEARNER, trigger) for trigger in "abcd"] == [1, 0, 1, 0]
    for number in (7, 9):
        books.answer(LEARNER, number)
    assert (books.last(LEARNER), len(books)) == (None, 1), "answered, so nothing is left"


def test_what_is_still_to_be_answered_up_to_a_firing() -> None:
    books = Invocations()
    calls = [call(number) for number in (3, 5, 7)]
    for each in calls:
        books.add(LEARNER, each, now=0.0)
    found = [len(books.through(LEARNER, firing)) for firing in (3, 5, 7)]
    assert found == [1, 2, 3]
    assert books.through(LEARNER, 5) == (calls[0], calls[1])
    books.answer(LEARNER, 3)
    assert books.through(LEARNER, 5) == (calls[1],)
    for firing in (3, 4, 9):
        assert books.through(LEARNER, firing) == (), "answered, or never asked for"
    assert books.through(ONE, 5) == ()


def test_how_many_invocations_come_after_a_firing() -> None:
    books = Invocations()
    for number, trigger in ((3, "update"), (4, "helps"), (5, "update"), (6, "update")):
        books.add(LEARNER, Invoke(number, trigger, "m"), now=0.0)
    after = [books.after(LEARNER, firing, {"helps"}) for firing in (2, 3, 4, 5, 6)]
    assert after == [3, 2, 3, 1, 0], "who is answered, or not counted, comes before all others"
    assert books.after(LEARNER, 3, ()) == 3
    assert books.after(ONE, 3, ()) == 0


def test_what_was_handed_over_is_known_before_it_is_used() -> None:
    claims = Claims()
    assert claims.claimed("a", 0) == 0
    claims.claim("a", [Claim(0, 0, 4), Claim(0, 4, 8), Claim(1, 0, 2)])
    claims.claim("b", [Claim(0, 0, 2)])
    assert [claims.claimed("a", 0), claims.claimed("a", 1), claims.claimed("b", 0)] == [8, 2, 2]
    claims.claim("a", [Claim(0, 0, 4)])  # handed over again, to a learner that was started anew
    assert claims.claimed("a", 0) == 8
    claims.done("a", Claim(0, 0, 4))
    assert claims.claimed("a", 0) == 8


def test_what_is_handed_over_again_has_to_be_used_again() -> None:
    """Rows used out of order, by a learner that died before it had used those before them."""
    claims, rows = Claims(), [Claim(0, 0, 4), Claim(0, 4, 8)]
    claims.claim("a", rows)
    assert claims.done("a", rows[1]) == (8, 0)
    claims.claim("a", rows)
    assert claims.done("a", rows[0]) == (8, 4)
    assert claims.done("a", rows[1]) == (8, 8)


def test_a_single_row_counts() -> None:
    claims = Claims()
    claims.claim("a", [Claim(0, 0, 1), Claim(0, 1, 2)])
    for step in (0, 1):
        assert claims.done("a", Claim(0, step, step + 1)) == (2, step + 1)
        assert claims.consumed() == step + 1


def test_who_only_helps_consumes_nothing() -> None:
    claims = Claims(uncounted={"helps"})
    for consumer in ("helps", "a", "b"):
        claims.claim(consumer, [Claim(0, 0, 4), Claim(0, 4, 6)])
    counted = []
    for consumer, claim in (
        ("helps", Claim(0, 0, 4)), ("helps", Claim(0, 4, 6)), ("a", Claim(0, 0, 4)),
        ("b", Claim(0, 0, 4)), ("b", Claim(0, 4, 6)), ("a", Claim(0, 4, 6)),
    ):  # fmt: skip
        claims.done(consumer, claim)
        counted.append(claims.consumed())
    assert counted == [0, 0, 4, 4, 6, 6]
