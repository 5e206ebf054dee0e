"""AlterClientQuotas: change client quotas (KIP-546)."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.cluster.client_quotas import alter_client_quotas, refused
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)


def handle(
    broker: Broker, request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse | None:
    if not broker.may(call, Operation.ALTER_CONFIGS, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    submit(
        broker,
        call,
        partial(alter_client_quotas, request=request),
        respond=lambda results: AlterClientQuotasResponse(entries=results),
        refuse=partial(refuse, request),
    )
    return None


def refuse(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(refused(entry, refusal) for entry in request.entries)
    )
