"""Each bottleneck is named by what shows it, and no other is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.history import History
from triggers import ObjectKeyTrigger

IN_TURN = {"type": "triggers.data_key:DataKeyTrigger", "fields": {"n": None, "max_lag": 0}}
FREE = {"type": "triggers.data_key:DataKeyTrigger", "fields": {"n": 3, "max_lag": 8}}
REPLAY = {"type": "triggers.replay:ReplayTrigger", "fields": {"ratio": 16.0}}
PARTS = {"epochs": 4, "minibatches": 4}
USUAL = {"actors": 2, "steps": 16, "max_lag": 0, "ratio": 16.0}


def run_of(
    *, sample: float = 0.1, learn: float = 0.1, actors: int = 2, slow: float = 1.0,
    slot: float = 0.0, waited: float = 0.0, over: float = 0.001, device: float = 0.0,
    blocked: float = 0.0, quota: str = "", far: bool = False,
) -> History:  # fmt: skip
    """Ten updates of a run in turn; times are seconds of each round and update."""
    members = ["learner", *(f"actor {rank}" for rank in range(actors))]
    lines: list[dict[str, Any]] = [{"t": 0.0, "ready": each} for each in members]
    lines += [{"t": 0.0, "quota": quota}] if quota else []
    now, number = 0.1, 0
    for _ in range(10):
        begun, number = now, number + 1
        lines.append({"t": now, "firing": number, "trigger": "actors.sample", "after": "learner"})
        ends = []
        for actor in range(actors):
            seconds = sample * (slow if actor == 0 else 1.0)
            end = begun + over + slot + waited + blocked + seconds
            costs = {"slot": slot, "waited": waited} if slot or waited else {}
            ends.append(
                (end, {"done": number, "by": f"actor {actor}", "seconds": seconds, **costs})
            )
        ends.sort(key=lambda each: each[0])
        now = ends[-1][0]
        if blocked:
            lines.append({"t": begun + over + blocked, "blocked": blocked})
        lines += [{"t": end, **line} for end, line in ends]
        after = ends[-1][1]["by"]
        number += 1
        lines.append({"t": now, "firing": number, "trigger": "learner.update", "after": after})
        now += over + device + learn
        times = {"learn": learn, "wait_for_device": device}
        done = {"done": number, "by": "learner", "seconds": learn, "times": times, "cpu": learn}
        lines.append({"t": now, **done})
    return History({"environment": 1.0}, far).read(lines)


def named(
    history: History, settings: Mapping[str, Any] | None = None,
    table: Mapping[str, Any] = IN_TURN, **facts: Any,
) -> tuple[str, str]:  # fmt: skip
    """The bottleneck, and the first that is advised."""
    known: dict[str, Any] = {"actors": 2, "steps": 16, "cpus": 2, "actors_cpu": 0.9} | facts
    run = Evidence(history, USUAL | (settings or {}), {"learner.update": table}, **known)
    first = findings(run)[0]
    return first.bottleneck, first.advice[0]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (named(run_of(sample=1.0, actors=1), actors=1), ("slow environment", "--actors 2")),
        (
            named(run_of(actors=4, slow=8.5), {"n": 4}, FREE, actors=4),
            ("one straggler", "--set n=3 --set max_lag=10"),
        ),
        (named(run_of(), actors_cpu=0.1), ("lag gate", "--set max_lag=1")),
        (named(run_of(sample=0.001, learn=0.001, over=0.02)), ("small batch", "--set steps=16384")),
        (named(run_of(blocked=0.5)), ("slow disk", "--run-dir on a faster disk")),
        (named(run_of(learn=0.5), {"threads": 16}), ("too many threads", "--set threads=2")),
        (named(run_of(learn=1.0), algorithm="ppo"), ("learner", "--set learners=2")),
        (
            named(run_of(learn=1.0), algorithm="impala"),  # as all algorithms can be
            ("learner", "--set learners=2"),
        ),
        (
            named(run_of(learn=0.05, sample=0.01), {**PARTS, "learners": 2}),
            ("too many learners", "--set learners=1"),
        ),
        (
            named(run_of(over=0.4, far=True), {"wire_dtype": "float32"}, moved=8e6),
            ("network", "--set wire_dtype=bfloat16 --set max_lag=1"),
        ),
        (
            named(run_of(over=0.4, far=True), {"wire_dtype": "float32"}, moved=8e3),
            ("network", "--set max_lag=1"),  # with few bytes, half of them take as long
        ),
        (named(run_of(device=0.5)), ("device contention", "--priority 1")),
        (
            named(run_of(waited=0.5), {"park": "checkpoint"}),
            ("parked too eagerly", "--set park=memory"),
        ),
        (named(run_of(learn=1.0), table=REPLAY), ("replay ratio", "--set ratio=1.4")),
        (
            named(run_of(slot=0.5, quota="user ann holds 1 of 1 slots", far=True)),
            ("scheduler's quota", "in head.toml: a quota of slots = 2"),
        ),
        (
            named(run_of(slot=0.5), {"slots": 1}, actors_cpu=0.9),
            ("few slots", "--set slots=0"),
        ),
    ],
    ids=lambda each: each[0],
)  # fmt: skip
def test_it_is_named(found: tuple[str, str], wanted: tuple[str, str]) -> None:
    assert found == wanted


def learners_of(learn: float, settings: Mapping[str, Any], **facts: Any) -> list[str]:
    """What is advised on learners of a run whose updates take so many seconds."""
    run = Evidence(
        run_of(learn=learn, sample=0.01), USUAL | settings, {"learner.update": FREE}, 2,
        algorithm="ppo", **{"cpus": 2} | facts,
    )  # fmt: skip
    found = [each for each in findings(run) if each.bottleneck.endswith(("learner", "learners"))]
    return [text for each in found for text in each.advice]


@pytest.mark.parametrize(
    ("learn", "parts", "advised"),
    [
        (0.016, PARTS, []),  # 16 steps of 1 ms: two would wait for each other longer than that
        (0.016, {}, ["--set learners=2"]),
        (1.6, PARTS, ["--set learners=2"]),
    ],
)
def test_several_learners_wait_for_each_other_at_each_step(
    learn: float, parts: Mapping[str, Any], advised: list[str]
) -> None:
    assert learners_of(learn, parts) == advised


@pytest.mark.parametrize(
    ("learn", "learners", "advised"),
    [(0.05, 2, ["--set learners=1"]), (1.6, 2, []), (0.05, 1, []), (1.6, "policy=2", [])],
)
def test_those_that_wait_longer_than_they_learn_are_too_many(
    learn: float, learners: Any, advised: list[str]
) -> None:
    assert learners_of(learn, {**PARTS, "learners": learners}) == advised


def test_who_gets_no_cpu_gets_none_for_several_processes() -> None:
    """Half of a CPU is there for the learner, whatever it is made of."""
    run = run_of(learn=1.6, sample=0.01)
    for each in run.members["learner"]:
        each.cpu = 0.8
    (found,) = findings(Evidence(run, USUAL, {"learner.update": FREE}, 2, cpus=2))
    assert found.bottleneck == "learner"
    assert found.gain == pytest.approx(4 / 3, rel=0.02)


def starved(learn: float, algorithm: str, settings: Mapping[str, Any]) -> list[str]:
    """What is found where a learner uses a fifth of a CPU."""
    run = run_of(learn=learn, sample=0.01)
    for each in run.members["learner"]:
        each.cpu = 0.2 * learn
    evidence = Evidence(
        run, USUAL | PARTS | settings, {"learner.update": FREE}, 2, cpus=2, algorithm=algorithm
    )
    return [text for each in findings(evidence) for text in each.advice]


def test_a_learner_of_ours_that_uses_little_of_a_cpu_lacks_one() -> None:
    """One of the user's own may wait for something else, and several wait at the same time."""
    assert "--set learners=2" in starved(1.6, "ppo", {})
    assert not [text for text in starved(0.057, "ppo", {}) if "learners" in text]
    (own,) = starved(1.6, "mine", {})
    assert own.endswith("--set learners=4")


def test_more_learners_and_fewer_are_not_advised_at_once() -> None:
    assert starved(0.117, "ppo", {"learners": 2}) == ["--set learners=1"]


def test_where_actors_use_all_other_cpus_there_is_none_for_a_learner() -> None:
    run = run_of(learn=0.1, sample=0.1)
    for member in ("actor 0", "actor 1"):
        for each in run.members[member]:
            each.begin -= 0.1  # it had sampled while the learner learned
    found = findings(Evidence(run, USUAL, {"learner.update": FREE}, 2, cpus=2, actors_cpu=0.9))
    assert "learner" not in [each.bottleneck for each in found]


def test_a_step_of_the_optimiser_on_few_rows_is_a_small_batch() -> None:
    settings = {"batch": 8, "ratio": 8.0}
    run = run_of(learn=0.001, sample=0.0005, over=0.0)
    found = findings(Evidence(run, settings, {"learner.update": REPLAY}, 2, steps=8, cpus=2))
    small = next(each for each in found if each.bottleneck == "small batch")
    assert small.advice == ("--set batch=64 --set ratio=16",)


@pytest.mark.parametrize("ratio", [0, "16", None])
def test_a_ratio_that_is_none_is_no_reason_to_fail(ratio: Any) -> None:
    """A foreign config.json may have any value there."""
    table = {"learner.update": {**REPLAY, "fields": {"ratio": ratio}}}
    slow, small = run_of(learn=1.0), run_of(learn=0.001, sample=0.0005, over=0.0)
    for run in (slow, small):
        found = findings(Evidence(run, {"batch": 8}, table, 2, steps=8, cpus=2))
        assert "replay ratio" not in [each.bottleneck for each in found]


def test_what_a_round_takes_whatever_its_steps_is_spread_over_more_of_them() -> None:
    run = run_of(sample=0.01, learn=0.01, over=0.002)
    settings, table = {"minibatches": 1, "steps": 64}, {"learner.update": IN_TURN}
    steps = {}
    for bound in (0.0, 0.9):
        for member in ("actor 0", "actor 1"):
            for each in run.members[member]:
                each.work = {"environment": 0.01 * (1 - bound), "bind": 0.01 * bound}
        found = findings(Evidence(run, settings, table, 2, steps=64, cpus=2))
        small = next(each for each in found if each.bottleneck == "small batch")
        steps[bound] = int(small.advice[0].partition("=")[2])
    assert steps[0.9] > steps[0.0]


@pytest.mark.parametrize("kind", ["environment", "inference", "sample"])
def test_larger_rounds_gain_no_more_than_what_handing_over_takes(kind: str) -> None:
    """What actors of one's own do besides steps may be work for each step, too."""
    run = run_of(sample=0.086, learn=0.001, over=0.0065)
    for member in ("actor 0", "actor 1"):
        for each in run.members[member]:
            each.work = {"inference": 0.001, kind: 0.085}
    evidence = Evidence(run, {}, {"learner.update": FREE}, 2, steps=68, cpus=2, algorithm="mine")
    small = next(each for each in findings(evidence) if each.bottleneck == "small batch")
    assert small.gain <= 1 / (1 - evidence.share("hand-over"))
    assert small.advice == ("steps=272 of its Workload",)


def test_rounds_before_the_first_update_say_nothing_of_the_ratio() -> None:
    """They fill the buffer, and wait for nobody."""
    run = run_of(learn=1.0)
    found = findings(Evidence(run, {}, {"learner.update": REPLAY}, 2, cpus=2))
    before = next(each for each in found if each.bottleneck == "replay ratio")
    first = run.members["actor 0"][0]
    first.begin, run.ready["actor 0"] = first.begin - 50.0, -50.0
    found = findings(Evidence(run, {}, {"learner.update": REPLAY}, 2, cpus=2))
    assert next(each for each in found if each.bottleneck == "replay ratio") == before


def test_a_lower_ratio_saves_what_the_learner_took_and_nothing_else() -> None:
    """Actors that hardly work as they wait for something else are not kept by the learner."""
    run = Evidence(run_of(waited=2.0, learn=1.0), {}, {"learner.update": REPLAY}, 2, cpus=2)
    first, *others = findings(run)
    assert first.bottleneck == "parked too eagerly"
    ratio = next(each for each in others if each.bottleneck == "replay ratio")
    assert ratio.gain <= 1 / (1 - run.learning - run.share("hand-over"))


@pytest.mark.parametrize(
    ("actors", "inference", "together"), [(21, "actor", 1), (21, "central", 7)]
)
def test_a_straggler_is_found_whoever_evaluates_the_policy(
    actors: int, inference: str, together: int
) -> None:
    """With a server's answers more actors than there are CPUs sample at a time."""
    run = run_of(actors=actors, slow=9.5, learn=0.01)
    settings = {"n": actors, "max_lag": 0, "inference": inference}
    found = findings(
        Evidence(run, settings, {"learner.update": FREE}, actors, cpus=2, actors_cpu=0.1)
    )
    straggler = [each for each in found if each.bottleneck == "one straggler"]
    if inference == "actor":
        assert not straggler, "the others would take turns for as long"
        return
    assert straggler[0] == found[0]
    assert straggler[0].advice == (f"--set n={actors - 1} --set max_lag=11",)
    assert straggler[0].gain == pytest.approx(9.5 * together / actors, rel=0.01)


def test_of_two_actors_the_slow_one_is_named() -> None:
    """No setting has the other one go on without it."""
    run = Evidence(run_of(slow=9.5), {"n": 2}, {"learner.update": FREE}, 2, cpus=2, actors_cpu=0.1)
    found = findings(run)[0]
    assert found.bottleneck == "one straggler"
    assert found.figure.startswith("a round of actor 0 takes 0.95 s, one of the others 0.1 s")
    assert found.advice[0].startswith("see what slows actor 0 down")


def test_what_is_set_already_is_not_advised() -> None:
    run, settings = run_of(actors=4, slow=9.5), {"n": 3, "max_lag": 11}
    found = findings(Evidence(run, settings, {"learner.update": FREE}, 4, cpus=2))
    assert "one straggler" not in [each.bottleneck for each in found]


def test_of_two_actors_the_slower_one_may_be_the_usual_one() -> None:
    found = findings(Evidence(run_of(slow=1.7), {"n": 2}, {"learner.update": FREE}, 2, cpus=2))
    assert "one straggler" not in [each.bottleneck for each in found]


def test_a_learner_that_draws_rows_waits_for_no_straggler() -> None:
    found = findings(Evidence(run_of(actors=4, slow=10.0), {}, {"learner.update": REPLAY}, 4))
    assert "one straggler" not in [each.bottleneck for each in found]


def test_no_more_actors_are_advised_than_sample_at_a_time() -> None:
    """Four share a CPU, however little each computes."""
    run = run_of(sample=1.0, learn=0.001, actors=1)
    found = findings(
        Evidence(
            run, {"actors": 1, "inference": "actor"}, {"learner.update": FREE}, 1, cpus=2,
            actors_cpu=0.01,
        )
    )  # fmt: skip
    assert found[0].advice == ("--actors 8 --set inference=central",)


def bottlenecks_of(run: History) -> list[str]:
    return [each.bottleneck for each in findings(Evidence(run, {}, {}, 2, cpus=2))]


def test_that_a_process_starts_is_no_parking() -> None:
    """The first round of an actor may be long after the first update, if that took few rows."""
    run = run_of()
    run.members["actor 1"] = run.members["actor 1"][1:]
    late = run.members["actor 1"][0]
    late.before, late.kept, late.begin = None, {"process": 0.5}, late.begin + 0.5
    assert "parked too eagerly" not in bottlenecks_of(run)


def test_of_what_is_parked_nothing_is_said_before_there_are_three_updates() -> None:
    for updates in (1, 2, 3):
        run = run_of(waited=0.5)
        run.members["learner"] = run.members["learner"][:updates]
        assert ("parked too eagerly" in bottlenecks_of(run)) == (updates == 3)


def test_on_a_busy_machine_hand_overs_say_nothing_of_the_batch() -> None:
    run = run_of(sample=0.001, learn=0.001, over=0.02)
    run.queued = 0.5 * run.ended
    found = [each.bottleneck for each in findings(Evidence(run, {}, {}, 2, cpus=2))]
    assert found[0] == "busy machine"
    assert "small batch" not in found


def test_a_run_that_is_as_fast_as_it_can_be_is_let_alone() -> None:
    run = run_of(sample=1.0, learn=0.01, over=0.0)
    assert findings(Evidence(run, {}, {"learner.update": FREE}, 2, cpus=2)) == []


def test_without_an_update_nothing_is_said() -> None:
    assert findings(Evidence(History(), {}, {}, 1)) == []


def test_of_several_learners_it_is_the_one_that_actors_wait_for() -> None:
    lines: list[dict[str, Any]] = [
        {"t": 0.0, "firing": 1, "trigger": "model.fit"},
        {"t": 0.1, "done": 1, "by": "model", "seconds": 0.1},
        {"t": 0.2, "firing": 2, "trigger": "speaker.update"},
        {"t": 0.4, "done": 2, "by": "speaker", "seconds": 0.2},
    ]
    both = [(ObjectKeyTrigger("rows_seen") | ObjectKeyTrigger("speaker/model_param")).encode()]
    updates: dict[str, Mapping[str, Any]] = {"model.fit": FREE, "speaker.update": FREE}
    for learner, table in (
        ("speaker", updates | {"actors.sample": {"fields": {"triggers": both}}}),
        (
            "speaker",
            {**dict(reversed(updates.items())), "actors.sample": ObjectKeyTrigger().encode()},
        ),
        ("model", updates),
    ):
        run = Evidence(History().read(lines), {}, table, 1)
        assert [each.member for each in run.updates] == [learner]


def test_of_several_learners_each_has_its_own_cpu() -> None:
    """Two that compute all the time use one CPU each; the first one's updates use no more."""
    lines: list[dict[str, Any]] = [{"t": 0.0, "ready": each} for each in ("learner", "critic")]
    for number in range(1, 13, 2):
        begin = float(number)
        for more, member in enumerate(("learner", "critic")):
            fired = {"t": begin, "firing": number + more, "trigger": f"{member}.update"}
            lines.append({**fired, "after": member})
        for more, member in enumerate(("learner", "critic")):
            done = {"t": begin + 2.0, "done": number + more, "by": member, "cpu": 2.0}
            lines.append({**done, "seconds": 2.0, "times": {"learn": 2.0}})
    run = Evidence(History().read(lines), {}, {"learner.update": FREE, "critic.update": FREE}, 0)
    assert run.learner_cpu == pytest.approx(1.0)


def test_updates_that_found_nothing_to_draw_make_an_update_no_shorter() -> None:
    history = run_of(learn=0.1)
    later = history.ended + 1.0
    nothing = {"t": later, "done": 99, "by": "learner", "nothing": "no rows"}
    history.read([{"t": later, "firing": 99, "trigger": "learner.update"}, nothing])
    assert Evidence(history, {}, {"learner.update": FREE}, 2).update == pytest.approx(0.1)
