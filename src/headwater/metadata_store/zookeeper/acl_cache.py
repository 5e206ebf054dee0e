"""Rules as ZooKeeper has them, kept up to date for every broker.

As with configs, changes are announced by notes, and the rules themselves are read again then. What
a reader would get wrong: with a new session everything is read anew, and only what differs from
before is told. Until then the rules of before hold, so that nobody gains a right by an outage.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.common.exceptions import CorruptFile, HeadwaterError
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata_store.zookeeper.acl_znodes import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Found,
    ask_for_acls,
    ask_for_pattern,
    read_notification,
)
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.znode_watches import Complained, NotificationsWatch
from headwater.metadata_store.zookeeper.zookeeper_client import ZooKeeperClient
from headwater.security.authorization.acl_bindings import NO_ACLS, ResourcePattern

AclsTold = Callable[[Sequence[MetadataChange]], None]


class AclCache:
    """Follows from `begin` to `stop`, and again from the next `begin` on."""

    def __init__(
        self, zk_client: ZooKeeperClient, *, told: AclsTold, complained: Complained
    ) -> None:
        """`told` hears of changes after the first whole reading."""
        self._zk_client = zk_client
        self._told = told
        self._complained = complained
        self._acls: Found = {}
        self._is_known = False
        self._waiting: list[AclsTold] = []
        self._notes: list[NotificationsWatch] = []
        # Notes that came while everything was read: that may have read what was there before.
        self._held: list[bytes] | None = None

    def begin(self) -> None:
        """A session has begun."""
        self.stop()
        # Followed before they are read: what changes meanwhile is read twice rather than never.
        self._notes = [
            NotificationsWatch(
                self._zk_client, path, told=self._announced, complained=self._complained
            )
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
            then(self._changes())
        else:
            self._waiting.append(then)

    def _changes(self) -> list[MetadataChange]:
        return [AclsReplaced(pattern, acls) for pattern, acls in sorted(self._acls.items())]

    def _read_all(self) -> None:
        found: Found = {}
        self._held = []
        gathering = ParallelReads(
            self._zk_client, then=lambda: self._all_read(found), otherwise=self._not_read
        )
        ask_for_acls(gathering, found)
        gathering.seal()

    def _not_read(self, error: HeadwaterError) -> None:
        self._held = None
        self._complained(error)

    def _all_read(self, found: Found) -> None:
        held, self._held = self._held or [], None
        gone = {pattern: NO_ACLS for pattern in self._acls if pattern not in found}
        changes = self._take({**gone, **found})
        was_known, self._is_known = self._is_known, True
        if was_known and changes:
            self._told(changes)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._changes())
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
        gathering = ParallelReads(
            self._zk_client, then=lambda: self._changed(found), otherwise=self._complained
        )
        for pattern in self._patterns(notes):
            gone = partial(found.__setitem__, pattern, NO_ACLS)
            ask_for_pattern(gathering, found, pattern, gone)
        gathering.seal()

    def _patterns(self, notes: Sequence[bytes]) -> list[ResourcePattern]:
        patterns: dict[ResourcePattern, None] = {}
        for note in notes:
            try:
                patterns[read_notification(note)] = None
            except CorruptFile as error:
                self._complained(error)
        return list(patterns)

    def _changed(self, found: Found) -> None:
        changes = self._take(found)
        if changes:
            self._told(changes)

    def _take(self, found: Found) -> list[MetadataChange]:
        """Keep what was read; the facts are what differs from before."""
        changes: list[MetadataChange] = [
            AclsReplaced(pattern, acls)
            for pattern, acls in found.items()
            if acls != self._acls.get(pattern, NO_ACLS)
        ]
        kept = {**self._acls, **found}
        self._acls = {pattern: acls for pattern, acls in kept.items() if acls.entries}
        return changes
