"""What a leader knows of one follower: log end offset, time of last catch-up.

A follower that fetches at an offset has all records below it (HW-4).

Note: in a fetch session a follower does not name a partition that has nothing new, so an idle
partition gets no updates here. `session` refers to the follower's fetch session instead; when
records are appended, the time of its last fetch is looked up there.
"""

from typing import Final, Protocol

NO_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
# Steady clocks may start at 0, so a time that never was is far below.
_NEVER: Final = -(1 << 62)


class LastFetch(Protocol):
    """The fetch session of a follower, with the time of its last fetch."""

    @property
    def fetched_ms(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...


class FollowerReplica:
    """One follower of a partition in one leader epoch; times by the steady clock."""

    __slots__ = (
        "_broker_epoch",
        "_fetched_end",
        "_fetched_ms",
        "caught_up_ms",
        "end_offset",
        "log_start_offset",
        "session",
    )

    def __init__(self, *, is_in_sync: bool, now_ms: int) -> None:
        """Members of the ISR count as caught up when a leader epoch starts."""
        self.end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self._broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = now_ms if is_in_sync else _NEVER
        self.session: LastFetch | None = None
        # Time of the last fetch that named the partition, and the leader's log end offset then.
        self._fetched_ms = _NEVER
        self._fetched_end = NO_OFFSET

    @property
    def broker_epoch(self) -> int:
        """The broker epoch that the follower fetches with.

        A broker whose ZooKeeper session expired registers again and continues to fetch. For a
        partition without new records only the fetch session shows the new epoch.
        """
        if self.session is None:
            return self._broker_epoch
        return max(self._broker_epoch, self.session.broker_epoch)

    def update_fetch_state(
        self,
        *,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        now_ms: int,
        session: LastFetch | None = None,
    ) -> None:
        """Record a fetch at an offset: the follower has all records below it (ISR-1)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self._fetched_end != NO_OFFSET and offset >= self._fetched_end:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self._broker_epoch = broker_epoch
        self.session = session
        self._fetched_ms = now_ms
        self._fetched_end = leader_end

    def left_behind(self, former_end: int) -> None:
        """After an append: a follower that was at the end was caught up at its last fetch."""
        if self.end_offset == former_end and self.session is not None:
            fetched_ms = self.session.fetched_ms
            self.caught_up_ms = max(self.caught_up_ms, fetched_ms)
            self._fetched_ms = max(self._fetched_ms, fetched_ms)
            self._fetched_end = former_end

    def is_fetching(self, *, now_ms: int, lag_max_ms: int) -> bool:
        """Return whether its session is active, even if it omits the partition."""
        return self.session is not None and now_ms - self.session.fetched_ms <= lag_max_ms
