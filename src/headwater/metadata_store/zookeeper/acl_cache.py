"""Cache of the ACLs in ZooKeeper, on every broker.

As with configs, changes are announced by notification znodes, and the ACLs are then read again.

Note: with a new session all ACLs are read again and only differences are reported. Until then the
old ACLs apply, so that an outage grants no access.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.common.exceptions import CorruptFile, HeadwaterError
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata_store.zookeeper.acl_znodes import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Found,
    read_acls,
    read_notification,
    read_pattern,
)
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.znode_watches import ErrorListener, NotificationsWatch
from headwater.metadata_store.zookeeper.zookeeper_client import ZooKeeperClient
from headwater.security.authorization.acl_bindings import NO_ACLS, ResourcePattern

AclListener = Callable[[Sequence[MetadataChange]], None]


class AclCache:
    """Watches from `begin` to `stop`, and again from the next `begin` on."""

    def __init__(
        self, zk_client: ZooKeeperClient, *, on_change: AclListener, on_error: ErrorListener
    ) -> None:
        """`on_change` is called with changes after the first complete read."""
        self._zk_client = zk_client
        self._on_change = on_change
        self._on_error = on_error
        self._acls: Found = {}
        self._is_known = False
        self._waiting: list[AclListener] = []
        self._watches: list[NotificationsWatch] = []
        # Notifications that arrived during the complete read, which may have read older data.
        self._held: list[bytes] | None = None

    def begin(self) -> None:
        """Start after a session began."""
        self.stop()
        # Watch before reading: a change in between is read twice instead of never.
        self._watches = [
            NotificationsWatch(
                self._zk_client, path, on_change=self._announced, on_error=self._on_error
            )
            for path in (LITERAL_CHANGES, EXTENDED_CHANGES)
        ]
        for each in self._watches:
            each.read()
        self._read_all()

    def stop(self) -> None:
        for each in self._watches:
            each.stop()
        self._watches = []

    def all(self, then: AclListener) -> None:
        """Call `then` with all ACLs as changes, as soon as they are known."""
        if self._is_known:
            then(self._changes())
        else:
            self._waiting.append(then)

    def _changes(self) -> list[MetadataChange]:
        return [AclsReplaced(pattern, acls) for pattern, acls in sorted(self._acls.items())]

    def _read_all(self) -> None:
        found: Found = {}
        self._held = []
        reads = ParallelReads(
            self._zk_client, then=lambda: self._all_read(found), on_error=self._not_read
        )
        read_acls(reads, found)
        reads.finish()

    def _not_read(self, error: HeadwaterError) -> None:
        self._held = None
        self._on_error(error)

    def _all_read(self, found: Found) -> None:
        held, self._held = self._held or [], None
        removed = {pattern: NO_ACLS for pattern in self._acls if pattern not in found}
        changes = self._take({**removed, **found})
        was_known, self._is_known = self._is_known, True
        if was_known and changes:
            self._on_change(changes)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._changes())
        if held:
            self._announced(held)

    def _announced(self, notes: Sequence[bytes]) -> None:
        """Read the announced ACLs."""
        if self._held is not None:
            self._held += notes
            return
        if not self._is_known:
            # An earlier read failed; it may work now.
            self._read_all()
            return
        found: Found = {}
        reads = ParallelReads(
            self._zk_client, then=lambda: self._changed(found), on_error=self._on_error
        )
        for pattern in self._patterns(notes):
            removed = partial(found.__setitem__, pattern, NO_ACLS)
            read_pattern(reads, found, pattern, removed)
        reads.finish()

    def _patterns(self, notes: Sequence[bytes]) -> list[ResourcePattern]:
        patterns: dict[ResourcePattern, None] = {}
        for note in notes:
            try:
                patterns[read_notification(note)] = None
            except CorruptFile as error:
                self._on_error(error)
        return list(patterns)

    def _changed(self, found: Found) -> None:
        changes = self._take(found)
        if changes:
            self._on_change(changes)

    def _take(self, found: Found) -> list[MetadataChange]:
        """Store what was read; return what differs from before."""
        changes: list[MetadataChange] = [
            AclsReplaced(pattern, acls)
            for pattern, acls in found.items()
            if acls != self._acls.get(pattern, NO_ACLS)
        ]
        merged = {**self._acls, **found}
        self._acls = {pattern: acls for pattern, acls in merged.items() if acls.entries}
        return changes
