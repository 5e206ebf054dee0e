"""Other brokers that answer when the test says so, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.cluster.colleagues import Answered, Errand
from headwater.model.failures import HeadwaterError
from headwater.model.ids import NodeId
from headwater.wire.lifting import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request on its way to another broker."""

    node_id: NodeId
    request: Message
    errand: Errand
    timeout_ms: int
    then: Answered
    otherwise: Callable[[HeadwaterError], None]


class SketchColleagues:
    """`headwater.cluster.colleagues.Colleagues`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(
        self,
        node_id: NodeId,
        request: Message,
        *,
        errand: Errand,
        timeout_ms: int,
        then: Answered,
        otherwise: Callable[[HeadwaterError], None],
    ) -> None:
        self.asked.append(
            Asked(
                node_id=node_id,
                request=request,
                errand=errand,
                timeout_ms=timeout_ms,
                then=then,
                otherwise=otherwise,
            )
        )

    def drop(self, node_id: NodeId, errand: Errand) -> None:
        raise AssertionError(f"nobody drops {errand} to {node_id}")
