"""Drive a replica of the quorum: one event at a time, effects in order.

Syncs are awaited.

Events wait while a sync is under way. Appends wait as well and then share one sync, so a busy
leader syncs once for many appends. No clock, thread or socket is in here: `RaftIo` has them, and
the simulator replaces it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.metadata_store.raft.kafka_raft_metrics import KafkaRaftMetrics
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.raft_events import (
    Effect,
    Event,
    FlushLog,
    HandleCommit,
    HandleLeaderChange,
    HandleLoadSnapshot,
    LeaderRefused,
    Poll,
    RequestReceived,
    Resign,
    ResponseReceived,
    SendRequest,
    SendResponse,
    WriteElectionState,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Node

Synced = Callable[[StorageError | None], None]
Answer = Callable[[Message], None]
Responded = Callable[[Message | None], None]
AppendResult = Callable[[ErrorCode, int], None]
"""Called with the last offset of an append, or with an error and -1."""


class RaftIo(Protocol):
    """Disk, clock and network of a replica."""

    def now_ms(self) -> int:
        """A clock that never goes back."""

    def flush(self, then: Synced) -> None:
        """Sync the log up to its end, then call back."""

    def write_election_state(
        self,
        election: ElectionState,
        *,
        kraft_version: int,
        voter_ids: tuple[int, ...],
        then: Synced,
    ) -> None:
        """Replace `quorum-state`, then call back once it is durable."""

    def send_request(self, node: Node, message: Message, then: Responded) -> None:
        """Send a request and call back once, with None if no response comes."""

    def poll_at(self, due_ms: int) -> None:
        """Call `RaftDriver.poll` at a time of `now_ms`; replaces an earlier request."""


class RaftListener(Protocol):
    """The state machine on the log. Calls come in the order of the log."""

    def handle_commit(self, start_offset: int, end_offset: int) -> None: ...

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingAppend:
    epoch: int
    batches: bytearray
    record_count: int
    then: AppendResult


class RaftDriver:
    """The serial shell of one `KafkaRaftClient`."""

    def __init__(
        self,
        client: KafkaRaftClient,
        *,
        io: RaftIo,
        listener: RaftListener,
        failed: Callable[[StorageError], None],
        broken: Callable[[Exception], None] | None = None,
    ) -> None:
        """Call `failed` if the disk fails, `broken` if an invariant does not hold.

        Without `broken` such an exception reaches the caller. In both cases the replica has
        stopped: it may have forgotten what it promised, or promise what it does not have.
        """
        self.client = client
        self.failure: StorageError | None = None
        self.metrics = KafkaRaftMetrics()
        self._io = io
        self._listener = listener
        self._failed = failed
        self._broken = broken
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._appends: deque[_PendingAppend] = deque()
        self._answers: dict[int, Answer] = {}
        self._last_call_id = 0
        self._is_started = False
        self._is_working = False
        self._is_syncing = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether no event, effect, append or sync is pending."""
        return not (self._is_syncing or self._effects or self._events or self._appends)

    def start(self, stored: ElectionState | None) -> None:
        """Start with what the disk has.

        Note: the log is synced first. A killed process may have left records in the page cache
        only, and the first fetch of the new process acknowledges them.
        """
        self._is_syncing = True

        def opened(error: StorageError | None) -> None:
            self._is_syncing = False
            if self._is_closed:
                return
            if error is not None:
                self._fail(error)
                return
            self._is_started = True
            self._initialize(stored)
            self._work()

        self._io.flush(opened)

    def receive(self, message: Message, answer: Answer) -> None:
        """Handle a request of the quorum's APIs; answer it once, perhaps much later."""
        self._last_call_id += 1
        self._answers[self._last_call_id] = answer
        self._handle(
            RequestReceived(call_id=self._last_call_id, message=message, now_ms=self._io.now_ms())
        )

    def forget(self, answer: Answer) -> None:
        """Drop the answer of a request whose connection has closed."""
        for call_id, each in self._answers.items():
            if each is answer:
                del self._answers[call_id]
                return

    def poll(self) -> None:
        self._handle(Poll(self._io.now_ms()))

    def resign(self, epoch: int) -> None:
        self._handle(Resign(epoch=epoch, now_ms=self._io.now_ms()))

    def leader_refused(self, leader: LeaderAndEpoch) -> None:
        """The leader of an epoch refuses connections."""
        self._handle(LeaderRefused(leader=leader, now_ms=self._io.now_ms()))

    def append(self, epoch: int, batches: bytearray, record_count: int, then: AppendResult) -> None:
        """Append as the leader of an epoch, all batches or none.

        The result says where the records are in the log. They are committed when the listener
        has been given that offset.
        """
        self._appends.append(
            _PendingAppend(epoch=epoch, batches=batches, record_count=record_count, then=then)
        )
        self._work()

    def close(self) -> None:
        """Stop. Answers and results under way are dropped."""
        self._is_closed = True
        self._events.clear()
        self._effects.clear()
        self._answers.clear()
        appends, self._appends = self._appends, deque()
        for each in appends:
            each.then(ErrorCode.NOT_CONTROLLER, -1)

    def _handle(self, event: Event) -> None:
        if self._is_closed:
            return
        self._events.append(event)
        self._work()

    def _work(self) -> None:
        if self._is_working or not self._is_started:
            return
        self._is_working = True
        try:
            self._work_until_idle()
        except StorageError as error:
            self._fail(error)
        except Exception as error:
            if self._broken is None:
                raise
            self.close()
            self._broken(error)
        finally:
            self._is_working = False

    def _work_until_idle(self) -> None:
        while not self._is_syncing and not self._is_closed:
            if self._effects:
                self._carry_out(self._effects.popleft())
            elif self._events:
                self._decide(self._events.popleft())
            elif self._appends:
                self._append_all()
            else:
                self._io.poll_at(self.client.next_poll_ms(self._io.now_ms()))
                return

    def _initialize(self, stored: ElectionState | None) -> None:
        self._effects.extend(self.client.initialize(stored, self._io.now_ms()))

    def _decide(self, event: Event) -> None:
        self._effects.extend(self.client.decide(event))
        self.metrics.observe(self.client, event.now_ms)

    def _append_all(self) -> None:
        """Append everything that waits for one epoch, with one sync."""
        epoch = self._appends[0].epoch
        taken: list[_PendingAppend] = []
        batches = bytearray()
        while self._appends and self._appends[0].epoch == epoch:
            each = self._appends.popleft()
            taken.append(each)
            batches += each.batches
        now_ms = self._io.now_ms()
        appended = self.client.append(epoch, batches, now_ms)
        self._effects.extend(appended.effects)
        if appended.info is None:
            for each in taken:
                each.then(ErrorCode.NOT_CONTROLLER, -1)
            return
        next_offset = appended.info.first_offset
        for each in taken:
            next_offset += each.record_count
            each.then(ErrorCode.NONE, next_offset - 1)
        assert next_offset == appended.info.last_offset + 1, "record counts do not match"
        self.metrics.appended(
            next_offset - appended.info.first_offset, appended.info.last_offset, now_ms
        )
        self.metrics.observe(self.client, now_ms)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case WriteElectionState(election):
                self._is_syncing = True
                self._io.write_election_state(
                    election,
                    kraft_version=self.client.kraft_version,
                    voter_ids=self.client.voters.ids,
                    then=self._synced,
                )
            case FlushLog():
                self._is_syncing = True
                self._io.flush(self._synced)
            case SendRequest():
                self._send(effect)
            case SendResponse(call_id, message):
                answer = self._answers.pop(call_id, None)
                if answer is not None:
                    answer(message)
            case HandleCommit(start_offset, end_offset):
                self._listener.handle_commit(start_offset, end_offset)
            case HandleLoadSnapshot(snapshot_id):
                self._listener.handle_load_snapshot(snapshot_id)
            case HandleLeaderChange(leader):
                self._listener.handle_leader_change(leader)
            case _:
                assert_never(effect)

    def _send(self, effect: SendRequest) -> None:
        def responded(message: Message | None) -> None:
            self._handle(
                ResponseReceived(
                    correlation_id=effect.correlation_id,
                    message=message,
                    now_ms=self._io.now_ms(),
                )
            )

        self._io.send_request(effect.destination, effect.message, responded)

    def _synced(self, error: StorageError | None) -> None:
        self._is_syncing = False
        if self._is_closed:
            return
        if error is not None:
            self._fail(error)
            return
        self._work()

    def _fail(self, error: StorageError) -> None:
        """Stop for good: what could not be synced may be lost, and was perhaps promised."""
        self.failure = error
        self.close()
        self._failed(error)
