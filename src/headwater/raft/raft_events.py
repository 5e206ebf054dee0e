"""What happens to a replica of the quorum, and what its shell has to do about it.

The shell carries out effects strictly in the order of the list. `WriteElectionState` and `FlushLog`
end only when the disk has synced; a crash before that leaves everything behind them undone. So a
vote or an acknowledgement that comes after them in the list never precedes what it promises.
"""

from dataclasses import dataclass

from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """A request of a replica, broker or tool; `SendResponse` has its `call_id`."""

    call_id: int
    message: Message
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseReceived:
    """The end of a request of ours: a response, or None if the connection failed."""

    correlation_id: int
    message: Message | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class Poll:
    """Time has passed; `KafkaRaftClient.next_poll_ms` says when this is due."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """The controller asks to give up leadership in an epoch."""

    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRefused:
    """The leader of an epoch refuses connections: its process has probably ended."""

    leader: LeaderAndEpoch
    now_ms: int


Event = RequestReceived | ResponseReceived | Poll | Resign | LeaderRefused


@dataclass(frozen=True, slots=True)
class WriteElectionState:
    """Replace `quorum-state` atomically and sync it."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Sync the log up to its end."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    correlation_id: int
    destination: Node
    message: Message


@dataclass(frozen=True, slots=True)
class SendResponse:
    call_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class HandleCommit:
    """Records from one offset up to another are committed and may be applied."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class HandleLoadSnapshot:
    """Replace the applied state with a snapshot."""

    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class HandleLeaderChange:
    """The leader of the latest epoch, or that it has none.

    This replica is announced as leader only once it has applied everything before its epoch.
    """

    leader: LeaderAndEpoch


Effect = (
    WriteElectionState
    | FlushLog
    | SendRequest
    | SendResponse
    | HandleCommit
    | HandleLoadSnapshot
    | HandleLeaderChange
)
