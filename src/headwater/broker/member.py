"""The standing of a broker in a cluster of several: what it cannot decide it passes on.

A client may ask any broker for what only the controller can do. The request travels to it in an
envelope, as the client wrote it, and the answer comes back the same way (KIP-590).

What a reader would get wrong: a controller that cannot be found is looked for until the time that a
broker waits for another one is over. A connection that breaks may hide that the request was served;
it is sent again all the same, as Kafka does it, and then a client may hear that its topic exists.
"""

from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final

from headwater.broker.call import Call
from headwater.broker.routes import route_of
from headwater.cluster.colleagues import Colleagues, Errand
from headwater.cluster.controller import Controller
from headwater.cluster.decision import Refusal
from headwater.cluster.effective import StaticConfig
from headwater.cluster.image import NO_CONTROLLER, ClusterImage
from headwater.cluster.internal_topics import creatable, create_on_first_use
from headwater.cluster.membership import Membership
from headwater.cluster.outbox import Later
from headwater.cluster.store import Failed
from headwater.cluster.topic_creation import Results
from headwater.model.errors import ErrorCode
from headwater.model.failures import ConnectionLost, ControllerFenced, HeadwaterError
from headwater.model.ports import Clock, Dice
from headwater.wire.lifting import Message
from headwater.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.wire.principals import written_principal

RETRY_MS: Final = 50
"""How long to wait before the controller is looked for again."""

# The controller tells all brokers of a new topic at once, as a rule within a few milliseconds.
_KNOWN_LOOK_MS: Final = 10
_KNOWN_TRIES: Final = 50


class Member:
    """`headwater.broker.standing.Standing` among other brokers."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        membership: Membership,
        colleagues: Colleagues,
        clock: Clock,
        dice: Dice,
        later: Later,
    ) -> None:
        self._static = static
        self._clock = clock
        self._dice = dice
        self._later = later
        self._colleagues = colleagues
        self.membership = membership

    @property
    def image(self) -> ClusterImage:
        return self.membership.reception.image

    @property
    def knows_what_exists(self) -> bool:
        return self.membership.reception.knows_what_exists

    @property
    def controller(self) -> Controller | None:
        leading = self.membership.leading
        return None if leading is None else leading.controller

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], otherwise: Failed
    ) -> None:
        def made(results: Results) -> None:
            here = [each.name for each in results if not each.error_code]
            self._when_known(here, tries=_KNOWN_TRIES, then=lambda: then(results))

        controller = self.controller
        if controller is not None:
            controller.submit(
                partial(create_on_first_use, names=names, static=self._static, dice=self._dice),
                then=made,
                otherwise=otherwise,
            )
            return
        timeout_ms = self._static.settings.request_timeout_ms
        wanted = tuple(creatable(name, self._static.settings, self.image) for name in names)

        def answered(response: Message) -> None:
            assert isinstance(response, CreateTopicsResponse)
            made(response.topics)

        self.ask_controller(
            CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms),
            then=answered,
            otherwise=otherwise,
        )

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], otherwise: Failed
    ) -> None:
        def answered(response: Message) -> None:
            assert isinstance(response, AllocateProducerIdsResponse)
            then(response)

        self.ask_controller(
            AllocateProducerIdsRequest(
                broker_id=self._static.node_id, broker_epoch=self.membership.broker_epoch
            ),
            then=answered,
            otherwise=otherwise,
        )

    def forward(self, call: Call, request: Message, frame: bytes) -> None:
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=written_principal(call.principal),
            client_host_address=ip_address(call.host).packed,
        )
        _Forwarding(self, call, request, envelope, self._deadline_ms()).send()

    def ask_controller(
        self,
        request: Message,
        *,
        then: Callable[[Message], None],
        otherwise: Failed,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request once to the current controller; `request.timeout.ms` unless given."""
        controller_id = self.image.controller_id
        if controller_id == NO_CONTROLLER:
            self._later(0, lambda: otherwise(ControllerFenced("there is no controller now")))
            return
        self._colleagues.ask(
            controller_id,
            request,
            errand=Errand.PETITION,
            timeout_ms=timeout_ms or self._static.settings.request_timeout_ms,
            then=then,
            otherwise=otherwise,
        )

    def _when_known(self, topics: Sequence[str], *, tries: int, then: Callable[[], None]) -> None:
        """Go on when this broker has heard of them too, or after a while without."""
        if tries == 0 or all(name in self.image.topics for name in topics):
            then()
        else:
            self._later(
                _KNOWN_LOOK_MS, lambda: self._when_known(topics, tries=tries - 1, then=then)
            )

    def retry(self, deadline_ms: int, again: Callable[[], None]) -> bool:
        """Whether there is time for it; then it is done a little later."""
        if self._clock.steady_ms() >= deadline_ms:
            return False
        self._later(RETRY_MS, again)
        return True

    def _deadline_ms(self) -> int:
        return self._clock.steady_ms() + self._static.settings.request_timeout_ms


class _Forwarding:
    """One client's request on its way to the controller and back."""

    __slots__ = ("_call", "_deadline_ms", "_envelope", "_member", "_request")

    def __init__(
        self,
        member: Member,
        call: Call,
        request: Message,
        envelope: EnvelopeRequest,
        deadline_ms: int,
    ) -> None:
        self._member = member
        self._call = call
        self._request = request
        self._envelope = envelope
        self._deadline_ms = deadline_ms

    def send(self) -> None:
        if not self._call.is_gone:
            self._member.ask_controller(self._envelope, then=self._answered, otherwise=self._failed)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, EnvelopeResponse)
        if response.response_data is not None and not response.error_code:
            self._call.answer_content(response.response_data)
        elif response.error_code is ErrorCode.NOT_CONTROLLER:
            self._try_again(Refusal(response.error_code, "the controller is another broker"))
        else:
            self._refuse(Refusal(response.error_code, "the controller did not take the request"))

    def _failed(self, error: HeadwaterError) -> None:
        refusal = Refusal(error.code, str(error))
        if isinstance(error, ConnectionLost | ControllerFenced):
            self._try_again(refusal)
        else:
            self._refuse(refusal)

    def _try_again(self, refusal: Refusal) -> None:
        if not self._member.retry(self._deadline_ms, self.send):
            self._refuse(Refusal(ErrorCode.REQUEST_TIMED_OUT, refusal.reason))

    def _refuse(self, refusal: Refusal) -> None:
        self._call.note_error(refusal.code)
        route = route_of(self._call.header.api.key)
        self._call.answer(route.refuse(self._request, refusal))
