"""Past versions as actors ask for them: of the policy, and of other learners."""

from __future__ import annotations

import numpy as np
import pytest

from artos.specs.bound import Bound


def of(*versions: int) -> tuple[Bound, ...]:
    return tuple(Bound(each, np.full(1, each, np.float32)) for each in versions)


def bound(*, rivals: tuple[Bound, ...] = (), selves: tuple[Bound, ...] = ()) -> Bound:
    objects = {"rival/model_param": np.full(1, 9, np.float32), "rival/shown": np.ones(2), "own": 0}
    return Bound(5, None, objects, {"rival": 9}, selves, 2, {"rival": rivals})  # type: ignore[arg-type]


def test_each_learner_has_a_past_of_its_own() -> None:
    found = bound(rivals=of(8, 6), selves=of(4))
    assert [found.past(k, "rival").version for k in (1, 2)] == [8, 6]
    assert [found.past(k).version for k in (1, 2)] == [4, 4], "while there are fewer, the oldest"


def test_while_there_is_none_the_newest_stands_for_it() -> None:
    newest = bound().past(1, "rival")
    assert newest.params is not None
    assert (newest.version, newest.params.tolist()) == (9, [9])
    assert [*newest.objects] == ["rival/shown"]
    assert bound().past(1).version == 5


def test_a_past_that_nobody_keeps_is_refused() -> None:
    with pytest.raises(ValueError, match="past_of lacks 'critic': name it there"):
        bound().past(1, "critic")
    with pytest.raises(ValueError, match=r"past\(3\): the actor has history=2"):
        bound().past(3, "rival")
