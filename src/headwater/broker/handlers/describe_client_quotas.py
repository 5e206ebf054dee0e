"""DescribeClientQuotas: read client quotas by a filter (KIP-546)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.client_quotas import describe_client_quotas
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    if not broker.may(call, Operation.DESCRIBE_CONFIGS, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    found = describe_client_quotas(broker.image, request)
    if isinstance(found, Refusal):
        return refuse(request, found)
    # Empty, and not null: Kafka does this (4.1).
    return DescribeClientQuotasResponse(error_message="", entries=found)


def refuse(_: DescribeClientQuotasRequest, refusal: Refusal) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=refusal.code, error_message=refusal.reason, entries=None
    )
