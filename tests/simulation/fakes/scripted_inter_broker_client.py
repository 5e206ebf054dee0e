"""An inter-broker client whose responses the test gives."""

from dataclasses import dataclass

from headwater.common.exceptions import ConnectionLost
from headwater.common.ids import NodeId
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.older_versions import Message


@dataclass(slots=True)
class Question:
    """A request to a broker."""

    node_id: NodeId
    request: Message
    purpose: Purpose
    timeout_ms: int
    then: OnResponse
    on_error: Failed

    def answer(self, response: Message) -> None:
        self.then(response)

    def fail(self) -> None:
        self.on_error(ConnectionLost("the test says so"))


class ScriptedInterBrokerClient:
    """`headwater.metadata.ports.inter_broker_client.InterBrokerClient` that keeps all requests."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,
    ) -> None:
        self.asked.append(Question(node_id, request, purpose, timeout_ms, then, on_error))

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        raise AssertionError(f"unexpected close of {purpose} to {node_id}")
