"""The shell around the decisions: one after the other, each on what the one before it proposed.

There are two images. `image` is what has been agreed on and what everybody reads. `proposed` also
has the facts that are on their way to the store; decisions are made on it, so that two requests for
one topic cannot both be granted. Answers wait until all facts that they rest on are agreed on. When
a write fails, all that was proposed after it is forgotten with it.

In a cluster, things also happen without being decided: brokers come and go. `observe` brings those
into both images, and into all that are between them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from headwater.common.exceptions import HeadwaterError
from headwater.metadata.changes import ImageListener, MetadataChange, apply
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.ports.metadata_store import ChangeWriter, Failed

R = TypeVar("R")

MOST_AWAITED: Final = 1_000
"""Answers that may wait for more than the store; beyond that they leave as soon as it agrees."""


@dataclass(slots=True, eq=False)
class _Proposal:
    changes: Sequence[MetadataChange]
    image: ClusterImage
    then: list[Callable[[], None]]
    otherwise: list[Failed]
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class _Awaited:
    """An answer that waits for more than the store."""

    until: Callable[[ClusterImage], bool]
    answer: Callable[[], None]
    otherwise: Failed


class DeferredEventQueue:
    """Decides for the cluster while the store takes this process for its controller."""

    def __init__(
        self,
        store: ChangeWriter,
        image: ClusterImage,
        told: ImageListener,
        *,
        foreseen: ImageListener | None = None,
        failed: Failed | None = None,
    ) -> None:
        """`image` is what the store has; `told` hears of every change before its answer leaves.

        `foreseen` hears of a change as soon as it is proposed. `failed` hears of a failed write
        once, after those who waited for it: what the store has is unknown then.
        """
        self.image = image
        self.proposed = image
        self._store = store
        self._told = told
        self._foreseen = foreseen
        self._write_failed = failed
        self._proposals: deque[_Proposal] = deque()
        self._awaited: list[_Awaited] = []

    def take_over(self, image: ClusterImage) -> None:
        """The store takes this process for its controller now, and this is what it has."""
        assert not self._proposals, "nothing is decided before the store has agreed"
        self.image = self.proposed = image

    def submit(
        self,
        decide: Callable[[ClusterImage], ControllerResult[R]],
        *,
        then: Callable[[R], None],
        otherwise: Failed,
    ) -> None:
        """Decide now, answer when it is agreed on; that may be before this returns."""
        decision = decide(self.proposed)
        answer = partial(then, decision.answer)
        if decision.until is not None:
            answer = partial(self._await, _Awaited(decision.until, answer, otherwise))
        if decision.changes:
            self._propose(decision.changes, answer, otherwise)
        elif self._proposals:
            # The answer may speak of what the last proposal says.
            self._proposals[-1].then.append(answer)
            self._proposals[-1].otherwise.append(otherwise)
        else:
            answer()

    def observe(self, changes: Sequence[MetadataChange]) -> None:
        """Things that have happened, and that no store needs to agree on."""
        for each in self._proposals:
            each.image = apply(each.image, changes, each.image.version)
        is_ahead = bool(self._proposals)
        self.image = apply(self.image, changes, self.image.version)
        self.proposed = self._proposals[-1].image if is_ahead else self.image
        if self._foreseen is not None:
            self._foreseen(self.proposed, changes)
        self._told(self.image, changes)

    def abandon(self, error: HeadwaterError) -> None:
        """Another one decides from now on: whoever waits for more than a write hears so."""
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            each.otherwise(error)

    def _propose(
        self, changes: Sequence[MetadataChange], answer: Callable[[], None], otherwise: Failed
    ) -> None:
        before = self.proposed.version
        version = before._replace(sequence=before.sequence + 1)
        self.proposed = apply(self.proposed, changes, version)
        proposal = _Proposal(changes, self.proposed, [answer], [otherwise])
        self._proposals.append(proposal)
        if self._foreseen is not None:
            self._foreseen(self.proposed, changes)
        self._store.write(
            changes,
            fence=before,
            then=partial(self._agreed, proposal),
            otherwise=partial(self._failed, proposal),
        )

    def _agreed(self, proposal: _Proposal, version: Version) -> None:
        oldest = self._proposals.popleft()
        assert oldest is proposal, "writes end in the order in which they were made"
        assert proposal.image.version == version
        self.image = proposal.image
        self._told(proposal.image, proposal.changes)
        for answer in proposal.then:
            answer()
        if self._awaited:
            self._look()

    def _await(self, awaited: _Awaited) -> None:
        # Those who wait in vain for a broker that never comes back must not pile up.
        if awaited.until(self.image) or len(self._awaited) >= MOST_AWAITED:
            awaited.answer()
        else:
            self._awaited.append(awaited)

    def _look(self) -> None:
        """Answer those who have waited for what is so now."""
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            self._await(each)

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
        if self._write_failed is not None:
            self._write_failed(error)
