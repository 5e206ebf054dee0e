"""Other brokers whose responses the test gives."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.protocol.older_versions import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request on its way to another broker."""

    node_id: NodeId
    request: Message
    purpose: Purpose
    timeout_ms: int
    then: OnResponse
    on_error: Callable[[HeadwaterError], None]


class SimpleInterBrokerClient:
    """`headwater.metadata.ports.inter_broker_client.InterBrokerClient`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        self.asked.append(
            Asked(
                node_id=node_id,
                request=request,
                purpose=purpose,
                timeout_ms=timeout_ms,
                then=then,
                on_error=on_error,
            )
        )

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        raise AssertionError(f"unexpected drop of {purpose} to {node_id}")
