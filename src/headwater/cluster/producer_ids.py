"""Producer ids, handed to brokers in blocks; the rest of a stopped broker's block is lost."""

from typing import Final

from headwater.cluster.decision import Decision
from headwater.cluster.facts import ProducerIdsAllocated
from headwater.cluster.image import ClusterImage
from headwater.model.errors import ErrorCode
from headwater.model.ids import NodeId
from headwater.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

BLOCK: Final = 1_000


def allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """A block for a broker that is up, under the epoch of its registration."""
    broker = image.brokers.get(NodeId(request.broker_id))
    if broker is None:
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        return Decision((), AllocateProducerIdsResponse(error_code=error))
    if broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
        return Decision((), AllocateProducerIdsResponse(error_code=error))
    start = image.next_producer_id
    return Decision(
        (ProducerIdsAllocated(start + BLOCK),),
        AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK),
    )
