"""What a leader remembers of each follower: how far it is, and when it last had everything.

A follower's fetch at an offset says that it has all below it (HW-4). What a reader would get wrong:
a follower that has nothing to fetch does not name the partition in its fetches, so nothing is
noted here while a partition is idle. Instead the *pulse* is kept, which is the session of the
follower's fetches; when something is appended, the time of the last of them is looked up there.
"""

from typing import Final, Protocol

NO_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
# Steady clocks may begin at nought, so the time of what never happened lies far below.
_NEVER: Final = -(1 << 62)


class LastFetch(Protocol):
    """Who knows when a follower has last asked for everything it follows of this leader."""

    @property
    def fetched_ms(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...


class FollowerReplica:
    """One follower of one partition, during one leader epoch. Times are of the steady clock."""

    __slots__ = (
        "_broker_epoch",
        "_fetched_end",
        "_fetched_ms",
        "caught_up_ms",
        "end_offset",
        "log_start_offset",
        "pulse",
    )

    def __init__(self, *, is_in_sync: bool, now_ms: int) -> None:
        """A new leader gives those that are in sync some time to show it."""
        self.end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self._broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = now_ms if is_in_sync else _NEVER
        self.pulse: LastFetch | None = None
        # The last fetch that named the partition, and where the leader's log ended then.
        self._fetched_ms = _NEVER
        self._fetched_end = NO_OFFSET

    @property
    def broker_epoch(self) -> int:
        """As which incarnation it fetches.

        A broker whose session with the store was lost registers anew and goes on fetching; where
        there is nothing to fetch, only the pulse tells of it.
        """
        if self.pulse is None:
            return self._broker_epoch
        return max(self._broker_epoch, self.pulse.broker_epoch)

    def fetched(
        self,
        *,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        now_ms: int,
        pulse: LastFetch | None = None,
    ) -> None:
        """It fetches from an offset on, and so has all below it (ISR-1)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self._fetched_end != NO_OFFSET and offset >= self._fetched_end:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self._broker_epoch = broker_epoch
        self.pulse = pulse
        self._fetched_ms = now_ms
        self._fetched_end = leader_end

    def left_behind(self, former_end: int) -> None:
        """The leader's log has grown. Who had all of it until now, had it at its last fetch."""
        if self.end_offset == former_end and self.pulse is not None:
            fetched_ms = self.pulse.fetched_ms
            self.caught_up_ms = max(self.caught_up_ms, fetched_ms)
            self._fetched_ms = max(self._fetched_ms, fetched_ms)
            self._fetched_end = former_end

    def is_fetching(self, *, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it still asks for the partition, be it that it has nothing to say of it."""
        return self.pulse is not None and now_ms - self.pulse.fetched_ms <= lag_max_ms

    def is_caught_up(self, leader_end: int, *, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has everything, or had so a short time ago (ISR-1)."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
