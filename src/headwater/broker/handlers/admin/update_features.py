"""UpdateFeatures: change finalized feature levels of the cluster."""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.feature_control import update_features
from headwater.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse | None:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(outcome: ApiError) -> UpdateFeaturesResponse:
        if outcome.code:
            call.record_error(outcome.code)
            return error_response(request, outcome)
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
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def error_response(_: UpdateFeaturesRequest, error: ApiError) -> UpdateFeaturesResponse:
    """Return a top-level error only, in all versions, as Kafka 4.1 does."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.reason)
