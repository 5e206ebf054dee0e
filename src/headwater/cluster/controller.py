"""The shell around the decisions: one after the other, each on what the one before it proposed.

There are two images. `image` is what has been agreed on and what everybody reads. `proposed` also
has the facts that are on their way to the store; decisions are made on it, so that two requests for
one topic cannot both be granted. Answers wait until all facts that they rest on are agreed on. When
a write fails, all that was proposed after it is forgotten with it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headwater.cluster.decision import Decision
from headwater.cluster.facts import Fact, apply
from headwater.cluster.image import ClusterImage, Version
from headwater.cluster.store import Failed, MetadataStore
from headwater.model.failures import HeadwaterError

R = TypeVar("R")

Told = Callable[[ClusterImage, Sequence[Fact]], None]


@dataclass(slots=True, eq=False)
class _Proposal:
    facts: Sequence[Fact]
    image: ClusterImage
    then: list[Callable[[], None]]
    otherwise: list[Failed]
    is_void: bool = False


class Controller:
    """Decides for the cluster while the store takes this process for its controller."""

    def __init__(self, store: MetadataStore, image: ClusterImage, told: Told) -> None:
        """`image` is what the store has; `told` hears of every change before its answer leaves."""
        self.image = image
        self.proposed = image
        self._store = store
        self._told = told
        self._proposals: deque[_Proposal] = deque()

    def take_over(self, image: ClusterImage) -> None:
        """The store takes this process for its controller now, and this is what it has."""
        assert not self._proposals, "nothing is decided before the store has agreed"
        self.image = self.proposed = image

    def submit(
        self,
        decide: Callable[[ClusterImage], Decision[R]],
        *,
        then: Callable[[R], None],
        otherwise: Failed,
    ) -> None:
        """Decide now, answer when it is agreed on; that may be before this returns."""
        decision = decide(self.proposed)
        answer = partial(then, decision.answer)
        if decision.facts:
            self._propose(decision.facts, answer, otherwise)
        elif self._proposals:
            # The answer may speak of what the last proposal says.
            self._proposals[-1].then.append(answer)
            self._proposals[-1].otherwise.append(otherwise)
        else:
            answer()

    def _propose(
        self, facts: Sequence[Fact], answer: Callable[[], None], otherwise: Failed
    ) -> None:
        before = self.proposed.version
        version = before._replace(sequence=before.sequence + 1)
        self.proposed = apply(self.proposed, facts, version)
        proposal = _Proposal(facts, self.proposed, [answer], [otherwise])
        self._proposals.append(proposal)
        self._store.write(
            facts,
            fence=before,
            then=partial(self._agreed, proposal),
            otherwise=partial(self._failed, proposal),
        )

    def _agreed(self, proposal: _Proposal, version: Version) -> None:
        oldest = self._proposals.popleft()
        assert oldest is proposal, "writes end in the order in which they were made"
        assert proposal.image.version == version
        self.image = proposal.image
        self._told(proposal.image, proposal.facts)
        for answer in proposal.then:
            answer()

    def _failed(self, proposal: _Proposal, error: HeadwaterError) -> None:
        if proposal.is_void:
            return
        # Whoever is told may submit again at once, so nothing of this may be left over by then.
        void: deque[_Proposal] = deque()
        while not proposal.is_void:
            void.appendleft(self._proposals.pop())
            void[0].is_void = True
        self.proposed = self._proposals[-1].image if self._proposals else self.image
        for each in void:
            for otherwise in each.otherwise:
                otherwise(error)
