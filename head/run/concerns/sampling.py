"""Grants actors rounds of sampling, and says with which weights they sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import ACTORS, ENV, Member
from head.run.concerns.binding import Binding
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Event, Firing, Joined, Published, Shortened, Ungranted
from triggers.pacing import bounded, drawn_lags, max_lags, window
from triggers.pairs import plus
from triggers.setting import lags_set
from triggers.table import Table
from triggers.targets import parsed


class Sampling(Concern[Run]):
    """Turns firings of actor triggers into rounds and pulls, within the run's window.

    Before the first version is announced no actor can sample, and actors may still be restarted:
    what fires by then waits for it.
    """

    def __init__(self, run: Run, table: Table) -> None:
        super().__init__(run)
        self.window = window(run.plan, table)
        each_round = "actors.sync" not in run.plan.triggers
        self.binding = Binding(run.held, *self._lags(table), each_round=each_round)
        self._table = table
        others = [n for n in bounded(run.plan, table) if n != run.first.member.role]
        self._others = [run.learners[name] for name in others]
        self._early: dict[tuple[str, tuple[int, ...] | None], Firing] = {}
        self._begun = False

    def happened(self, event: Event) -> None:
        """With the first version begins what waited for it; who joins has missed the pulls."""
        if isinstance(event, Joined):
            self.binding.joined(event.actor)
        elif isinstance(event, Published) and self._others:
            self.binding.bound(*self._lags(self._table))
        if self.run.is_version(event):
            self.binding.bound(*self._lags(self._table))
            self._begun, early, self._early = True, self._early, {}
            for firing in early.values():
                self.fire(firing)
            self.window.ahead = event.ahead

    def _lags(self, table: Table) -> tuple[list[tuple[str, int, int]], dict[str, int]]:
        """How old rows may be: where it was lowered, those that are sampled from now on."""
        most = lags_set(self.run.plan, self.run.configuration)
        handed = [
            (target, size, min(lag, most.get(parsed(target).role, lag)))
            for target, size, lag in max_lags(table)
        ]
        return handed, {n: min(lag, most.get(n, lag)) for n, lag in drawn_lags(table).items()}

    def admits(self, firing: Firing) -> bool:
        """Whether more rounds are granted."""
        return self.run.ending.samples or not parsed(firing.trigger).samples

    def fire(self, firing: Firing) -> None:
        """An actor trigger fired: grant rounds, or have weights bound.

        An actor that still has as many rounds to sample as were ever granted at once gets no more.
        """
        run = self.run
        if parsed(firing.trigger).samples:
            invoked = self._sample(firing) if self._begun else self._is_early(firing)
        elif run.version < 0:
            # There is nothing to bind before the first version, which the first round binds.
            invoked = False
        else:
            # Once no more is sampled, beside what is left: clocks might have pulls made for ever.
            goes_on = run.ending.samples or run.ending.works(run.invocations, but_pulls=True)
            actors = self._of(firing) if goes_on else []
            call = Invoke(firing.number, firing.trigger, parsed(firing.trigger).method, bind=True)
            for actor in actors:
                # An object is announced before the weights of its update.
                self.binding.asked(actor, run.published, self._versions_of_others())
                last = run.invocations.last(Member(ACTORS, actor))
                self._send(actor, self.binding.pull(actor, call, last))
            invoked = bool(actors)
        if not invoked and firing.trigger in run.engine.clocks():
            run.in_vain(firing)

    def _is_early(self, firing: Firing) -> bool:
        """Keep a firing for the first version; False if it is for the same actors as another."""
        target = firing.trigger, firing.actors  # each of these has rounds of its own
        early = self._early.get(target)
        self._early[target] = plus(early, firing) if early else firing
        return early is None

    def _of(self, firing: Firing) -> list[int]:
        actors = self.run.actors
        return [*actors] if firing.actors is None else [a for a in firing.actors if a in actors]

    def _sample(self, firing: Firing) -> bool:
        run, actors = self.run, self._of(firing)
        run.rounds.at_once(max(firing.rounds, firing.ahead))
        granted = 0
        for _ in range(firing.rounds):
            round_ = msgspec.structs.replace(firing, rounds=1)
            if run.admits(round_):
                granted += self._grant(firing, actors)
            for gone in {*(firing.actors or ())}.difference(actors):
                run.engine.feed(Ungranted(firing.trigger, gone))
        return granted > 0

    def _grant(self, firing: Firing, actors: Iterable[int]) -> int:
        """Grant one round to each of the actors that may have one; returns how many do."""
        run, number, target = self.run, firing.number, firing.trigger
        method, used, steps = parsed(target).method, run.progress.used, run.progress.consumed
        newest, made_by = run.ports.model.made_by()
        trained = newest + run.invocations.after(run.members.publisher, made_by, run.non_publishing)
        others, granted = self._trained_of_others(), 0
        for actor in self.window.in_turn(actors, run.rounds.granted_to):
            stop = run.rounds.grant(actor) if self.window.admits(actor) else None
            if stop is not None:
                if bind := self.binding.is_due(actor, trained, run.rounds, run.claims, others):
                    self.binding.asked(actor, run.version, self._versions_of_others())
                self.window.granted(actor, self.binding.oldest(actor))
                self._send(actor, self.binding.before_round(actor))
                call = Invoke(number, target, method, (), stop, bind, used, steps, run.idle,
                              run.configuration.of(ENV), run.configuration.number)  # fmt: skip
                self._send(actor, call)
                granted += 1
            elif firing.actors is not None:
                run.engine.feed(Ungranted(target, actor))
        return granted

    def _versions_of_others(self) -> dict[str, int]:
        """The newest version of each other learner whose rows may not be older than some bound."""
        return {each.member.role: each.model.version for each in self._others}

    def _trained_of_others(self) -> dict[str, int]:
        """Their versions once they are done with all rows that they were handed."""
        found, run = {}, self.run
        for each in self._others:
            newest, made_by = each.model.made_by()
            later = run.invocations.after(each.member, made_by, run.non_publishing)
            found[each.member.role] = newest + later
        return found

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The actor has weights of some version, which may be too old for a pull kept back.

        Once it has no round to sample any more, rows of those that it ended early are granted anew.
        """
        if self.run.members.role(member).samples:
            if call.stop and self.run.plan.short_rounds:
                self.run.rounds.ends[member.rank] = min(call.stop, done.written)
            last = self.run.invocations.last(member)
            ended = call.stop and self.run.plan.short_rounds and not (last and last.stop)
            if ended and (rows := self.run.rounds.shorten(member.rank)):
                self.run.feed(Shortened(call.trigger, member.rank, rows))
                last = self.run.invocations.last(member)
            self._send(member.rank, self.binding.answered(member.rank, self.run.version, last))
        return NOTHING

    def _send(self, actor: int, call: Invoke | None) -> None:
        if call is not None:
            self.run.invoke(Member(ACTORS, actor), call)

    def __repr__(self) -> str:
        return f"<Sampling {self.run.rounds.granted} rows granted, {self.window!r}>"
