"""DescribeQuorum: voters and observers of the metadata log.

Brokers of a KRaft cluster forward it to the active controller.
"""

from typing import NoReturn

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)


def handle(_: Broker, request: DescribeQuorumRequest, call: Call) -> NoReturn:
    raise AssertionError(f"a broker cannot serve {call}: {request}")


def error_response(_: DescribeQuorumRequest, error: ApiError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.reason)
