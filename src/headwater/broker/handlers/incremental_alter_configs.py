"""IncrementalAlterConfigs: change single configs (CF-1)."""

from dataclasses import replace
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.config_rights import refuse_unauthorized
from headwater.broker.decisions import submit
from headwater.cluster.config_changes import incremental_alter_configs
from headwater.cluster.decision import Refusal
from headwater.security.authorization import Operation
from headwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: Broker, request: IncrementalAlterConfigsRequest, call: Call) -> None:
    allowed, refused = [], []
    for each in request.resources:
        refusal = refuse_unauthorized(
            broker, call, Operation.ALTER_CONFIGS, each.resource_type, each.resource_name
        )
        if refusal is None:
            allowed.append(each)
        else:
            refused.append(_refused(each, refusal))

    def respond(
        results: tuple[AlterConfigsResourceResponse, ...],
    ) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=(*results, *refused))

    submit(
        broker,
        call,
        partial(
            incremental_alter_configs,
            request=replace(request, resources=tuple(allowed)),
            static=broker.static,
        ),
        respond=respond,
        refuse=partial(refuse, request),
    )


def refuse(
    request: IncrementalAlterConfigsRequest, refusal: Refusal
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(_refused(each, refusal) for each in request.resources)
    )


def _refused(asked: AlterConfigsResource, refusal: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=refusal.code,
        error_message=refusal.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
