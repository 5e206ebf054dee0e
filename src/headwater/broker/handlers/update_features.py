"""UpdateFeatures: raise or lower the levels of features, for the whole cluster."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.cluster.decision import Refusal
from headwater.cluster.feature_updates import update_features
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(
    broker: Broker, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse | None:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(outcome: Refusal) -> UpdateFeaturesResponse:
        if outcome.code:
            call.note_error(outcome.code)
            return refuse(request, outcome)
        return UpdateFeaturesResponse(
            results=tuple(
                UpdatableFeatureResult(feature=each.feature) for each in request.feature_updates
            )
        )

    submit(
        broker,
        call,
        partial(update_features, request=request),
        respond=respond,
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def refuse(_: UpdateFeaturesRequest, refusal: Refusal) -> UpdateFeaturesResponse:
    """On top only, in all versions: Kafka does this (4.1)."""
    return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.reason)
