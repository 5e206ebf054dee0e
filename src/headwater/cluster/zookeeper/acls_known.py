"""Rules as ZooKeeper has them, kept up to date for every broker.

As with configs, changes are announced by notes, and the rules themselves are read again then. What
a reader would get wrong: with a new session everything is read anew, and only what differs from
before is told. Until then the rules of before hold, so that nobody gains a right by an outage.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.cluster.facts import AclsReplaced, Fact
from headwater.cluster.zookeeper.acl_nodes import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Found,
    ask_for_acls,
    ask_for_pattern,
    read_note,
)
from headwater.cluster.zookeeper.following import Complained, NotesFollowed
from headwater.cluster.zookeeper.gathering import Gathering
from headwater.cluster.zookeeper.keeper import Keeper
from headwater.model.failures import CorruptFile, HeadwaterError
from headwater.security.acls.bindings import NO_ACLS, ResourcePattern

AclsTold = Callable[[Sequence[Fact]], None]


class AclsKnown:
    """Follows from `begin` to `stop`, and again from the next `begin` on."""

    def __init__(self, keeper: Keeper, *, told: AclsTold, complained: Complained) -> None:
        """`told` hears of changes after the first whole reading."""
        self._keeper = keeper
        self._told = told
        self._complained = complained
        self._acls: Found = {}
        self._is_known = False
        self._waiting: list[AclsTold] = []
        self._notes: list[NotesFollowed] = []
        # Notes that came while everything was read: that may have read what was there before.
        self._held: list[bytes] | None = None

    def begin(self) -> None:
        """A session has begun."""
        self.stop()
        # Followed before they are read: what changes meanwhile is read twice rather than never.
        self._notes = [
            NotesFollowed(self._keeper, path, told=self._announced, complained=self._complained)
            for path in (LITERAL_CHANGES, EXTENDED_CHANGES)
        ]
        for each in self._notes:
            each.look()
        self._read_all()

    def stop(self) -> None:
        for each in self._notes:
            each.stop()
        self._notes = []

    def all(self, then: AclsTold) -> None:
        """Everything as facts, as soon as it is known."""
        if self._is_known:
            then(self._facts())
        else:
            self._waiting.append(then)

    def _facts(self) -> list[Fact]:
        return [AclsReplaced(pattern, acls) for pattern, acls in sorted(self._acls.items())]

    def _read_all(self) -> None:
        found: Found = {}
        self._held = []
        gathering = Gathering(
            self._keeper, then=lambda: self._all_read(found), otherwise=self._not_read
        )
        ask_for_acls(gathering, found)
        gathering.seal()

    def _not_read(self, error: HeadwaterError) -> None:
        self._held = None
        self._complained(error)

    def _all_read(self, found: Found) -> None:
        held, self._held = self._held or [], None
        gone = {pattern: NO_ACLS for pattern in self._acls if pattern not in found}
        facts = self._take({**gone, **found})
        was_known, self._is_known = self._is_known, True
        if was_known and facts:
            self._told(facts)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._facts())
        if held:
            self._announced(held)

    def _announced(self, notes: Sequence[bytes]) -> None:
        """Somebody has changed something: read it."""
        if self._held is not None:
            self._held += notes
            return
        if not self._is_known:
            # Something could not be read, and may be right now.
            self._read_all()
            return
        found: Found = {}
        gathering = Gathering(
            self._keeper, then=lambda: self._changed(found), otherwise=self._complained
        )
        for pattern in self._patterns(notes):
            gone = partial(found.__setitem__, pattern, NO_ACLS)
            ask_for_pattern(gathering, found, pattern, gone)
        gathering.seal()

    def _patterns(self, notes: Sequence[bytes]) -> list[ResourcePattern]:
        patterns: dict[ResourcePattern, None] = {}
        for note in notes:
            try:
                patterns[read_note(note)] = None
            except CorruptFile as error:
                self._complained(error)
        return list(patterns)

    def _changed(self, found: Found) -> None:
        facts = self._take(found)
        if facts:
            self._told(facts)

    def _take(self, found: Found) -> list[Fact]:
        """Keep what was read; the facts are what differs from before."""
        facts: list[Fact] = [
            AclsReplaced(pattern, acls)
            for pattern, acls in found.items()
            if acls != self._acls.get(pattern, NO_ACLS)
        ]
        kept = {**self._acls, **found}
        self._acls = {pattern: acls for pattern, acls in kept.items() if acls.entries}
        return facts
