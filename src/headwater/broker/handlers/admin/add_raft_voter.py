"""AddRaftVoter: make a controller a voter.

Brokers of a KRaft cluster forward it to the active controller.
"""

from typing import NoReturn

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(_: Broker, request: AddRaftVoterRequest, call: Call) -> NoReturn:
    raise AssertionError(f"a broker cannot serve {call}: {request}")


def error_response(_: AddRaftVoterRequest, error: ApiError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.reason)
