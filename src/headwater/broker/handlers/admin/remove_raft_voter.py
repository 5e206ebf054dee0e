"""RemoveRaftVoter: remove a voter.

Brokers of a KRaft cluster forward it to the active controller.
"""

from typing import NoReturn

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


def handle(_: Broker, request: RemoveRaftVoterRequest, call: Call) -> NoReturn:
    raise AssertionError(f"a broker cannot serve {call}: {request}")


def error_response(_: RemoveRaftVoterRequest, error: ApiError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.reason)
