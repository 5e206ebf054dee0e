"""Incremental fetch sessions (KIP-227): a request only contains changes.

The rules are FT-5 to FT-8.

Note: the session epoch is incremented when a request arrives, not when it is answered. A request
that is sent again is therefore rejected, and the client creates a new session. This is necessary:
it cannot know which changes the lost response contained.

Followers have a session class of their own (`follower_fetch_session`), in which an idle partition
costs nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.common.ports import Random
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest
from headwater.replication.partition import Partition

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_LARGEST: Final = 2**31 - 1
_STALE_MS: Final = 120_000

Key = tuple[TopicId | str, int]


class CachedPartition:
    """One partition of a fetch, with the offsets that the client was last sent.

    A topic is given by name or by id; the other is empty or None.
    """

    __slots__ = (
        "current_leader_epoch",
        "hosted",
        "last_fetched_epoch",
        "max_bytes",
        "number",
        "offset",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId | None, requested: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = requested.partition
        self.hosted: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.update(requested)

    def update(self, requested: FetchPartition) -> None:
        self.offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch


@dataclass(slots=True, kw_only=True, eq=False)
class FetchSession:
    """The partitions that one client fetches, in the order in which they are read."""

    session_id: int
    uses_topic_ids: bool
    partitions: dict[Key, CachedPartition]
    created_ms: int
    used_ms: int
    epoch: int = 1
    is_follower: ClassVar = False

    def update(self, request: FetchRequest) -> None:
        """Apply a request: update named partitions and remove forgotten ones (FT-7)."""
        for topic in request.topics:
            name: TopicId | str = topic.topic_id if self.uses_topic_ids else topic.topic
            for requested in topic.partitions:
                known = self.partitions.get((name, requested.partition))
                if known is None:
                    topic_id = topic.topic_id if self.uses_topic_ids else None
                    known = self.new_partition(topic.topic, topic_id, requested)
                    self.partitions[name, requested.partition] = known
                else:
                    known.update(requested)
                self.on_requested(known)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for number in forgotten.partitions:
                removed = self.partitions.pop((name, number), None)
                if removed is not None:
                    self.on_forgotten(removed)

    def new_partition(
        self, topic: str, topic_id: TopicId | None, requested: FetchPartition
    ) -> CachedPartition:
        """Create the entry of a partition that is new in the session."""
        return CachedPartition(topic, topic_id, requested)

    def on_requested(self, wanted: CachedPartition) -> None:
        """Called for each partition that a request names."""

    def on_forgotten(self, wanted: CachedPartition) -> None:
        """Called for each partition that leaves the session."""

    def partitions_to_read(self) -> Sequence[CachedPartition]:
        """Return the partitions that a request of this session reads."""
        return list(self.partitions.values())

    def close(self) -> None:
        """Called when the session ends."""

    def move_to_end(self, wanted: CachedPartition) -> None:
        """Move a partition with data to the end, so that others are read first (FT-6)."""
        name = wanted.topic if wanted.topic_id is None else wanted.topic_id
        key: Key = (name, wanted.number)
        moved = self.partitions.pop(key, None)
        if moved is not None:
            self.partitions[key] = moved

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _LARGEST else self.epoch + 1


class FetchContext(NamedTuple):
    """What one request reads, and its session if one is kept.

    `scope` is the session, or the session object of a request for which none is kept.
    """

    partitions: Sequence[CachedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode | None = None
    scope: FetchSession | None = None


NewSession = Callable[..., FetchSession]


class FetchSessionCache:
    """The fetch sessions of a broker, at most `slots` of them."""

    def __init__(self, slots: int, rng: Random) -> None:
        self._slots = slots
        self._rng = rng
        # Least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def remove(self, session: FetchSession) -> None:
        """Close a session whose client will not use it again."""
        self._close(self._sessions.pop(session.session_id, None))

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def resolve(
        self,
        request: FetchRequest,
        *,
        uses_topic_ids: bool,
        now_ms: int,
        new_session: NewSession | None = None,
    ) -> FetchContext:
        """Return the partitions that a request reads, creating or updating its session."""
        epoch = request.session_epoch
        if epoch not in (_INITIAL_EPOCH, _FINAL_EPOCH):
            return self._resumed(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        if epoch == _FINAL_EPOCH and new_session is None:
            # Shortcut for consumers that never use a session.
            self._close(self._sessions.pop(request.session_id, None))
            return FetchContext(list(_full(request, uses_topic_ids=uses_topic_ids).values()))
        self._close(self._sessions.pop(request.session_id, None))
        make = new_session or FetchSession
        session = make(
            session_id=NO_SESSION,
            uses_topic_ids=uses_topic_ids,
            partitions={},
            created_ms=now_ms,
            used_ms=now_ms,
        )
        session.update(request)
        wanted = session.partitions_to_read()
        if epoch == _FINAL_EPOCH or not wanted or not self._has_room(session, now_ms):
            return FetchContext(wanted, scope=session)
        session.session_id = self._fresh_id()
        self._sessions[session.session_id] = session
        return FetchContext(wanted, session, scope=session)

    def _resumed(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext((), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        del self._sessions[session.session_id]
        if not session.partitions:
            session.close()
            return FetchContext(())
        session.used_ms = now_ms
        session.next_epoch()
        self._sessions[session.session_id] = session
        return FetchContext(
            session.partitions_to_read(), session, is_incremental=True, scope=session
        )

    def _has_room(self, session: FetchSession, now_ms: int) -> bool:
        """Return whether a session fits, after evicting a less important one (FT-8)."""
        if len(self._sessions) < self._slots:
            return True
        victim = (
            self._stale(now_ms)
            or self._lower_priority(session)
            or self._smaller(len(session.partitions), session, now_ms)
        )
        if victim is None:
            return False
        self._close(self._sessions.pop(victim.session_id))
        self.evicted_count += 1
        return True

    def _close(self, session: FetchSession | None) -> None:
        if session is not None:
            session.close()

    def _lower_priority(self, session: FetchSession) -> FetchSession | None:
        """A consumer's session, if the new one is a follower's."""
        if not session.is_follower:
            return None
        return next((each for each in self._sessions.values() if not each.is_follower), None)

    def _stale(self, now_ms: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        return oldest if oldest is not None and now_ms - oldest.used_ms > _STALE_MS else None

    def _smaller(self, size: int, session: FetchSession, now_ms: int) -> FetchSession | None:
        candidates = (
            each for each in self._evictable(now_ms) if session.is_follower or not each.is_follower
        )
        smallest = min(candidates, key=lambda each: len(each.partitions), default=None)
        return smallest if smallest is not None and len(smallest.partitions) < size else None

    def _evictable(self, now_ms: int) -> Iterator[FetchSession]:
        """Sessions old enough to be evicted by a larger one."""
        return (each for each in self._sessions.values() if now_ms - each.created_ms > _STALE_MS)

    def _fresh_id(self) -> int:
        while True:
            session_id = 1 + self._rng.below(_LARGEST)
            if session_id not in self._sessions:
                return session_id


def _full(request: FetchRequest, *, uses_topic_ids: bool) -> dict[Key, CachedPartition]:
    wanted: dict[Key, CachedPartition] = {}
    for topic in request.topics:
        topic_id = topic.topic_id if uses_topic_ids else None
        name: TopicId | str = topic.topic if topic_id is None else topic_id
        for requested in topic.partitions:
            wanted[name, requested.partition] = CachedPartition(topic.topic, topic_id, requested)
    return wanted
