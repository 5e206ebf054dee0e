"""Count what a replica of the quorum does (KafkaRaftMetrics).

The driver reports after each event; nothing here influences the replica. Times are as exact as the
driver's clock, which is in milliseconds.
"""

from collections import deque
from typing import Final

from headwater.common.latency_histogram import LatencyHistogram
from headwater.raft.kafka_raft_client import KafkaRaftClient

STATES: Final = (
    "unattached",
    "prospective",
    "candidate",
    "leader",
    "follower",
    "resigned",
    "observer",
)
_ELECTING: Final = ("prospective", "candidate")
_NS_PER_MS: Final = 1_000_000
# More appends under way are not timed.
_TIMED_APPENDS: Final = 1_000


class KafkaRaftMetrics:
    """Counters and latencies of one replica since its start."""

    def __init__(self) -> None:
        self.election_latency = LatencyHistogram()
        self.commit_latency = LatencyHistogram()
        self.appended_records = 0
        self.fetched_records = 0
        self._election_start_ms: int | None = None
        self._appends: deque[tuple[int, int]] = deque()
        self._end_offset: int | None = None

    def appended(self, count: int, last_offset: int, now_ms: int) -> None:
        """The leader has appended records; they are not committed yet."""
        self.appended_records += count
        if len(self._appends) < _TIMED_APPENDS:
            self._appends.append((last_offset, now_ms))

    def observe(self, client: KafkaRaftClient, now_ms: int) -> None:
        """Compare the replica with what it was after the event before."""
        self._observe_election(client, now_ms)
        end_offset = client.end.offset
        if client.is_leader:
            while self._appends and self._appends[0][0] < client.high_watermark:
                _, appended_ms = self._appends.popleft()
                self.commit_latency.record((now_ms - appended_ms) * _NS_PER_MS)
        else:
            self._appends.clear()
            if self._end_offset is not None and end_offset > self._end_offset:
                self.fetched_records += end_offset - self._end_offset
        self._end_offset = end_offset

    def _observe_election(self, client: KafkaRaftClient, now_ms: int) -> None:
        if client.state_name in _ELECTING:
            if self._election_start_ms is None:
                self._election_start_ms = now_ms
        elif self._election_start_ms is not None and client.leader_and_epoch.leader_id is not None:
            self.election_latency.record((now_ms - self._election_start_ms) * _NS_PER_MS)
            self._election_start_ms = None
