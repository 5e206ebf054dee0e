"""Colleagues that answer when the test says so, and what it says."""

from dataclasses import dataclass

from headwater.cluster.colleagues import Answered, Errand
from headwater.cluster.store import Failed
from headwater.model.failures import ConnectionLost
from headwater.model.ids import NodeId
from headwater.wire.lifting import Message


@dataclass(slots=True)
class Question:
    """A request that was asked of a broker."""

    node_id: NodeId
    request: Message
    errand: Errand
    timeout_ms: int
    then: Answered
    otherwise: Failed

    def answer(self, response: Message) -> None:
        self.then(response)

    def fail(self) -> None:
        self.otherwise(ConnectionLost("the test says so"))


class ScriptedColleagues:
    """`headwater.cluster.colleagues.Colleagues` that keeps all questions."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def ask(
        self,
        node_id: NodeId,
        request: Message,
        *,
        errand: Errand,
        timeout_ms: int,
        then: Answered,
        otherwise: Failed,
    ) -> None:
        self.asked.append(Question(node_id, request, errand, timeout_ms, then, otherwise))

    def drop(self, node_id: NodeId, errand: Errand) -> None:
        raise AssertionError(f"nobody closes {errand} to {node_id} here")
