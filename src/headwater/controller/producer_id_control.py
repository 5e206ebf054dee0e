"""Allocate blocks of producer ids to brokers (AllocateProducerIds).

A broker that stops loses the rest of its block.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.changes import ProducerIdsAllocated
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

BLOCK: Final = 1_000


def allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate a block to a registered broker with its current epoch."""
    broker = image.registration(NodeId(request.broker_id))
    if broker is None:
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        return ControllerResult((), AllocateProducerIdsResponse(error_code=error))
    if broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
        return ControllerResult((), AllocateProducerIdsResponse(error_code=error))
    start = image.next_producer_id
    return ControllerResult(
        (ProducerIdsAllocated(start + BLOCK),),
        AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK),
    )
