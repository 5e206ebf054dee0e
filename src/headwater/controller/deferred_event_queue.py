"""Order the controller's decisions and defer responses until they are written.

There are two images. `image` is what the store has confirmed and what everything else reads.
`proposed` also contains the changes in flight; decisions are made on it, so that two requests
cannot both create one topic. A response waits until all changes that it rests on are written. When
a write fails, all later proposals fail with it.

In a cluster some changes happen without a decision: brokers come and go. `observe` applies these to
both images and to all images in between.
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

MAX_AWAITED: Final = 1_000
"""Maximum of responses that wait for a condition; beyond it, they are sent when written."""


@dataclass(slots=True, eq=False)
class _Proposal:
    changes: Sequence[MetadataChange]
    image: ClusterImage
    then: list[Callable[[], None]]
    on_error: list[Failed]
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A response that waits for a condition on the image (`ControllerResult.until`)."""

    until: Callable[[ClusterImage], bool]
    answer: Callable[[], None]
    on_error: Failed


class DeferredEventQueue:
    """Decides for the cluster while this process is its controller."""

    def __init__(
        self,
        store: ChangeWriter,
        image: ClusterImage,
        on_written: ImageListener,
        *,
        on_proposed: ImageListener | None = None,
        on_failure: Failed | None = None,
    ) -> None:
        """`image` is what the store has.

        `on_written` is called with every change before its responses are sent, `on_proposed` as
        soon as it is proposed. `on_failure` is called once after a failed write, after its
        requests have failed: the store's content is then unknown.
        """
        self.image = image
        self.proposed = image
        self._store = store
        self._on_written = on_written
        self._on_proposed = on_proposed
        self._on_failure = on_failure
        self._proposals: deque[_Proposal] = deque()
        self._awaited: list[_Awaited] = []

    def take_over(self, image: ClusterImage) -> None:
        """The store confirmed this process as its controller; `image` is what it has."""
        assert not self._proposals, "no decisions before the store confirmed the controller"
        self.image = self.proposed = image

    def submit(
        self,
        decide: Callable[[ClusterImage], ControllerResult[R]],
        *,
        then: Callable[[R], None],
        on_error: Failed,
    ) -> None:
        """Decide now and respond when it is written, maybe before this returns."""
        decision = decide(self.proposed)
        answer = partial(then, decision.answer)
        if decision.until is not None:
            answer = partial(self._await, _Awaited(decision.until, answer, on_error))
        if decision.changes:
            self._propose(decision.changes, answer, on_error)
        elif self._proposals:
            # The response may depend on the last proposal.
            self._proposals[-1].then.append(answer)
            self._proposals[-1].on_error.append(on_error)
        else:
            answer()

    def observe(self, changes: Sequence[MetadataChange]) -> None:
        """Apply changes that happened without a decision and need no write."""
        for each in self._proposals:
            each.image = apply(each.image, changes, each.image.version)
        has_proposals = bool(self._proposals)
        self.image = apply(self.image, changes, self.image.version)
        self.proposed = self._proposals[-1].image if has_proposals else self.image
        if self._on_proposed is not None:
            self._on_proposed(self.proposed, changes)
        self._on_written(self.image, changes)

    def abandon(self, error: HeadwaterError) -> None:
        """Fail the responses that wait for a condition: another controller took over."""
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            each.on_error(error)

    def _propose(
        self, changes: Sequence[MetadataChange], answer: Callable[[], None], on_error: Failed
    ) -> None:
        before = self.proposed.version
        version = before._replace(sequence=before.sequence + 1)
        self.proposed = apply(self.proposed, changes, version)
        proposal = _Proposal(changes, self.proposed, [answer], [on_error])
        self._proposals.append(proposal)
        if self._on_proposed is not None:
            self._on_proposed(self.proposed, changes)
        self._store.write(
            changes,
            fence=before,
            then=partial(self._handle_written, proposal),
            on_error=partial(self._handle_failure, proposal),
        )

    def _handle_written(self, proposal: _Proposal, version: Version) -> None:
        if proposal.is_done:
            # It was reported as failed together with an earlier write.
            return
        oldest = self._proposals.popleft()
        oldest.is_done = True
        assert oldest is proposal, "writes must complete in the order they were submitted"
        assert proposal.image.version == version
        self.image = proposal.image
        self._on_written(proposal.image, proposal.changes)
        for answer in proposal.then:
            answer()
        if self._awaited:
            self._check_awaited()

    def _await(self, awaited: _Awaited) -> None:
        # Bounded: some may wait for a broker that never returns.
        if awaited.until(self.image) or len(self._awaited) >= MAX_AWAITED:
            awaited.answer()
        else:
            self._awaited.append(awaited)

    def _check_awaited(self) -> None:
        """Send the responses whose condition is met."""
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            self._await(each)

    def _handle_failure(self, proposal: _Proposal, error: HeadwaterError) -> None:
        if proposal.is_done:
            return
        # A callback may submit again at once, so remove all void proposals first.
        void: deque[_Proposal] = deque()
        while not proposal.is_done:
            void.appendleft(self._proposals.pop())
            void[0].is_done = True
        self.proposed = self._proposals[-1].image if self._proposals else self.image
        for each in void:
            for on_error in each.on_error:
                on_error(error)
        if self._on_failure is not None:
            self._on_failure(error)
