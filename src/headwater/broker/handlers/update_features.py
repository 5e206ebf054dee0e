"""UpdateFeatures: no feature of the cluster has levels here, so none can be raised or lowered."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if not request.feature_updates:
        return UpdateFeaturesResponse()
    names = ", ".join(sorted({each.feature for each in request.feature_updates}))
    reason = f"nothing was updated, because there is no feature {names} here"
    return refuse(request, Refusal(ErrorCode.INVALID_UPDATE_VERSION, reason))


def refuse(_: UpdateFeaturesRequest, refusal: Refusal) -> UpdateFeaturesResponse:
    """On top only, in all versions: Kafka does this (4.1)."""
    return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.reason)
