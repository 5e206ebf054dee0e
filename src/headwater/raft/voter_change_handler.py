"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: one change at a time.

Two sets that differ by one voter share a voter in every majority. That holds only from one set to
the next, so a change is refused while an earlier VotersRecord is uncommitted, and until the leader
has committed a record of its own epoch: before that, a VotersRecord of another leader may come to
light (KIP-853).
"""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.add_raft_voter import AddRaftVoterRequest
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from headwater.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from headwater.raft.leader_state import LeaderState, PendingVoterChange
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_messages import (
    add_voter_response,
    endpoints_of,
    leader_id_or_none,
    remove_voter_response,
    update_voter_request,
    update_voter_response,
)
from headwater.raft.request_manager import InflightRequest
from headwater.raft.voter_set import (
    NO_DIRECTORY_ID,
    Endpoint,
    Node,
    ReplicaKey,
    VoterNode,
    VoterSet,
    node_of,
)

KRAFT_VERSION_FEATURE = "kraft.version"
_SOFTWARE = "headwater"


class VoterChangeHandler:
    """Changes of the voter set."""

    __slots__ = ("_core",)

    def __init__(self, core: RaftCore) -> None:
        self._core = core

    def _refusal(self, state: LeaderState) -> tuple[ErrorCode, str] | None:
        """Why the voter set cannot change now."""
        core = self._core
        if state.pending_change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "Another voter change is pending"
        if state.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed its epoch"
        version = core.partition_state.last_kraft_version
        if version == 0:
            text = "The feature kraft.version is 0; voters change from version 1 on"
            return ErrorCode.UNSUPPORTED_VERSION, text
        offset = core.partition_state.last_voter_set_offset
        if offset is None or offset >= state.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "The latest voter set is not committed"
        return None

    def _append_voters(self, state: LeaderState, voters: VoterSet, now_ms: int) -> int:
        info = self._core.append_control_records(state, [voters.to_record()], now_ms)
        return info.last_offset

    # AddRaftVoter

    def handle_add_voter_request(
        self, call_id: int, request: AddRaftVoterRequest, now_ms: int
    ) -> None:
        core = self._core
        error = self._validate(request.cluster_id)
        if error is not ErrorCode.NONE:
            core.respond(call_id, add_voter_response(error))
            return
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = endpoints_of(request.listeners)
        node = node_of(key.id, endpoints, core.identity.listener_name)
        if key.id < 0 or key.directory_id == NO_DIRECTORY_ID or node is None:
            text = (
                f"Voter {key} needs a directory id and the listener {core.identity.listener_name}"
            )
            core.respond(call_id, add_voter_response(ErrorCode.INVALID_REQUEST, text))
            return
        state = core.quorum.state
        assert isinstance(state, LeaderState)
        refusal = self._refusal(state)
        if refusal is not None:
            core.respond(call_id, add_voter_response(*refusal))
            return
        if key.id in core.voters.ids:
            text = f"Voter {key} is already in the voter set {core.voters.ids}"
            core.respond(call_id, add_voter_response(ErrorCode.DUPLICATE_VOTER, text))
            return
        # Kafka refuses a request without the name and version of the software.
        api_versions = ApiVersionsRequest(
            client_software_name=_SOFTWARE, client_software_version=_SOFTWARE
        )
        if not core.send(node, api_versions, now_ms):
            text = f"Voter {key} cannot receive requests yet"
            core.respond(call_id, add_voter_response(ErrorCode.REQUEST_TIMED_OUT, text))
            return
        state.pending_change = PendingVoterChange(
            call_id=call_id,
            is_add=True,
            deadline_ms=now_ms + core.config.request_timeout_ms,
            voter=VoterNode(key=key, endpoints=endpoints),
        )

    def handle_api_versions_response(
        self, inflight: InflightRequest, response: ApiVersionsResponse, now_ms: int
    ) -> bool:
        """Append the larger voter set once the new voter's versions are known."""
        core = self._core
        state = core.quorum.state
        if not isinstance(state, LeaderState):
            return True
        pending = state.pending_change
        if (
            pending is None
            or not pending.is_add
            or pending.last_offset is not None
            or pending.voter.key.id != inflight.node.id
        ):
            return True
        if response.error_code is not ErrorCode.NONE:
            core.finish_pending_change(
                state,
                ErrorCode.REQUEST_TIMED_OUT,
                f"ApiVersions failed: {response.error_code.name}",
            )
            return False
        version = core.partition_state.last_kraft_version
        for feature in response.supported_features:
            if feature.name == KRAFT_VERSION_FEATURE:
                lowest, highest = feature.min_version, feature.max_version
                break
        else:
            lowest, highest = 0, 0
        if not lowest <= version <= highest:
            text = f"The voter supports kraft.version {lowest} to {highest}, not {version}"
            core.finish_pending_change(state, ErrorCode.INVALID_REQUEST, text)
            return True
        if not state.is_replica_caught_up(pending.voter.key, now_ms):
            text = f"Voter {pending.voter.key} is lagging behind"
            core.finish_pending_change(state, ErrorCode.REQUEST_TIMED_OUT, text)
            return True
        voter = VoterNode(
            key=pending.voter.key,
            endpoints=pending.voter.endpoints,
            min_kraft_version=lowest,
            max_kraft_version=highest,
        )
        voters = core.voters.add_voter(voter)
        assert voters is not None
        # Set first: a set of one voter commits within the append.
        pending.last_offset = core.log.end_offset
        self._append_voters(state, voters, now_ms)
        return True

    # RemoveRaftVoter

    def handle_remove_voter_request(
        self, call_id: int, request: RemoveRaftVoterRequest, now_ms: int
    ) -> None:
        core = self._core
        error = self._validate(request.cluster_id)
        if error is not ErrorCode.NONE:
            core.respond(call_id, remove_voter_response(error))
            return
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.id < 0 or key.directory_id == NO_DIRECTORY_ID:
            text = f"Voter {key} needs a directory id"
            core.respond(call_id, remove_voter_response(ErrorCode.INVALID_REQUEST, text))
            return
        state = core.quorum.state
        assert isinstance(state, LeaderState)
        refusal = self._refusal(state)
        if refusal is not None:
            core.respond(call_id, remove_voter_response(*refusal))
            return
        voter = core.voters.find(key.id)
        voters = core.voters.remove_voter(key)
        if voters is None or voter is None:
            text = f"Cannot remove voter {key} from the voter set {core.voters.ids}"
            core.respond(call_id, remove_voter_response(ErrorCode.VOTER_NOT_FOUND, text))
            return
        state.pending_change = PendingVoterChange(
            call_id=call_id,
            is_add=False,
            deadline_ms=now_ms + core.config.request_timeout_ms,
            voter=voter,
            last_offset=core.log.end_offset,
        )
        self._append_voters(state, voters, now_ms)

    # UpdateRaftVoter

    def handle_update_voter_request(
        self, call_id: int, request: UpdateRaftVoterRequest, now_ms: int
    ) -> None:
        """Answered at once: the change commits on its own."""
        core = self._core
        error = self._update_voter(request, now_ms)
        core.respond(
            call_id, update_voter_response(error, core.quorum.leader_and_epoch, core.leader_node())
        )

    def _update_voter(self, request: UpdateRaftVoterRequest, now_ms: int) -> ErrorCode:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        error = core.validate_leader_only_request(request.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return error
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = endpoints_of(request.listeners)
        versions = request.k_raft_version_feature
        lowest, highest = versions.min_supported_version, versions.max_supported_version
        if (
            key.id < 0
            or key.directory_id == NO_DIRECTORY_ID
            or node_of(key.id, endpoints, core.identity.listener_name) is None
            or not 0 <= lowest <= highest
        ):
            return ErrorCode.INVALID_REQUEST
        state = core.quorum.state
        assert isinstance(state, LeaderState)
        refusal = self._refusal(state)
        if refusal is not None:
            return refusal[0]
        if not lowest <= core.partition_state.last_kraft_version <= highest:
            return ErrorCode.INVALID_REQUEST
        voters = core.voters.update_voter(
            VoterNode(
                key=key,
                endpoints=endpoints,
                min_kraft_version=lowest,
                max_kraft_version=highest,
            )
        )
        if voters is None:
            return ErrorCode.VOTER_NOT_FOUND
        self._append_voters(state, voters, now_ms)
        return ErrorCode.NONE

    def needs_update(self) -> bool:
        """Whether the voter set has other endpoints or versions of this voter."""
        core = self._core
        if core.partition_state.last_kraft_version == 0:
            return False
        voter = core.voters.find(core.identity.key.id)
        return voter is not None and voter != core.local_voter_node

    def send_update_voter(self, node: Node, now_ms: int) -> bool:
        core = self._core
        voter = core.local_voter_node
        return core.send(
            node,
            update_voter_request(
                cluster_id=core.identity.cluster_id,
                voter=voter.key,
                epoch=core.quorum.epoch,
                endpoints=voter.endpoints,
                max_version=voter.max_kraft_version,
            ),
            now_ms,
        )

    def handle_update_voter_response(self, response: UpdateRaftVoterResponse, now_ms: int) -> bool:
        core = self._core
        leader = response.current_leader
        if leader.leader_epoch >= core.quorum.epoch and response.error_code in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ):
            endpoint = Endpoint(core.identity.listener_name, leader.host, leader.port)
            core.maybe_transition(
                leader_id_or_none(leader.leader_id),
                leader.leader_epoch,
                (endpoint,) if leader.host else (),
                now_ms,
            )
        return response.error_code is ErrorCode.NONE

    def expire(self, state: LeaderState, now_ms: int) -> None:
        pending = state.pending_change
        if pending is not None and now_ms >= pending.deadline_ms:
            self._core.finish_pending_change(state, ErrorCode.REQUEST_TIMED_OUT)

    def _validate(self, cluster_id: str | None) -> ErrorCode:
        core = self._core
        if not core.has_valid_cluster_id(cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        return core.validate_leader_only_request(core.quorum.epoch)
