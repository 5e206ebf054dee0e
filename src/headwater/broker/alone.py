"""The standing of a broker that is its whole cluster: it decides everything itself."""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.broker.call import Call
from headwater.cluster.controller import Controller
from headwater.cluster.effective import StaticConfig
from headwater.cluster.image import ClusterImage
from headwater.cluster.internal_topics import create_on_first_use
from headwater.cluster.producer_ids import allocate_producer_ids
from headwater.cluster.store import Failed
from headwater.cluster.topic_creation import Results
from headwater.model.ports import Dice
from headwater.wire.lifting import Message
from headwater.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


class Alone:
    """`headwater.broker.standing.Standing` without other brokers."""

    def __init__(self, static: StaticConfig, controller: Controller, dice: Dice) -> None:
        self._static = static
        self._dice = dice
        self.controller = controller
        self.membership = None
        self.knows_what_exists = True

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], otherwise: Failed
    ) -> None:
        self.controller.submit(
            partial(create_on_first_use, names=names, static=self._static, dice=self._dice),
            then=then,
            otherwise=otherwise,
        )

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], otherwise: Failed
    ) -> None:
        node_id = self._static.node_id
        own = self.controller.proposed.brokers[node_id]
        request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=own.epoch)
        self.controller.submit(
            partial(allocate_producer_ids, request=request), then=then, otherwise=otherwise
        )

    def forward(self, call: Call, request: Message, frame: bytes) -> None:  # noqa: ARG002
        raise AssertionError(f"there is nobody to pass {call} on to")
