"""Forward requests to the controller (KIP-590, ForwardingManager).

A client may send a request that only the controller can serve to any broker. The broker forwards it
unchanged in an Envelope and returns the response.

Note: while there is no reachable controller, the broker retries until `request.timeout.ms` has
passed. A connection that breaks may hide that the controller served the request; as in Kafka it is
sent again, so that a client may get TOPIC_ALREADY_EXISTS for a topic that its own request created.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final

from headwater.broker.node.cluster_membership import ClusterMembership
from headwater.broker.requests.api_routes import route_of
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId
from headwater.common.ports import Clock, Random
from headwater.controller.controller_channel_manager import CallLater
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.topic_creation import Results, creatable, create_on_first_use
from headwater.metadata.cluster_image import NO_CONTROLLER, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.protocol.older_versions import Message
from headwater.protocol.principal_serde import write_principal

RETRY_MS: Final = 50
"""Backoff before the controller is looked up again."""

# The controller sends a new topic's metadata to all brokers at once, usually within a few
# milliseconds.
_METADATA_POLL_MS: Final = 10
_METADATA_POLLS: Final = 50


class ForwardingManager(ABC):
    """`headwater.broker.node.controller_access.ControllerAccess` in a cluster."""

    is_clustered = True

    def __init__(
        self, static: StaticConfig, *, clock: Clock, rng: Random, call_later: CallLater
    ) -> None:
        self._static = static
        self._clock = clock
        self._rng = rng
        self._later = call_later

    @property
    @abstractmethod
    def image(self) -> ClusterImage: ...

    @property
    @abstractmethod
    def controller(self) -> DeferredEventQueue | None: ...

    @property
    @abstractmethod
    def broker_epoch(self) -> int: ...

    @abstractmethod
    def send_to_controller(
        self,
        request: Message,
        *,
        then: Callable[[Message], None],
        on_error: Failed,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request once to the current controller.

        Times out after `request.timeout.ms` by default.
        """

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], on_error: Failed
    ) -> None:
        def created(results: Results) -> None:
            created_names = [each.name for each in results if not each.error_code]
            self._await_metadata(created_names, tries=_METADATA_POLLS, then=lambda: then(results))

        controller = self.controller
        if controller is not None:
            controller.submit(
                partial(create_on_first_use, names=names, static=self._static, rng=self._rng),
                then=created,
                on_error=on_error,
            )
            return
        timeout_ms = self._static.settings.request_timeout_ms
        creatable_topics = tuple(
            creatable(name, self._static.settings, self.image) for name in names
        )

        def answered(response: Message) -> None:
            assert isinstance(response, CreateTopicsResponse)
            created(response.topics)

        self.send_to_controller(
            CreateTopicsRequest(topics=creatable_topics, timeout_ms=timeout_ms),
            then=answered,
            on_error=on_error,
        )

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], on_error: Failed
    ) -> None:
        def answered(response: Message) -> None:
            assert isinstance(response, AllocateProducerIdsResponse)
            then(response)

        self.send_to_controller(
            AllocateProducerIdsRequest(
                broker_id=self._static.node_id, broker_epoch=self.broker_epoch
            ),
            then=answered,
            on_error=on_error,
        )

    def forward(self, call: Call, request: Message, frame: bytes) -> None:
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=write_principal(call.principal),
            client_host_address=ip_address(call.host).packed,
        )
        _Forwarding(self, call, request, envelope, self._deadline_ms()).send()

    def _await_metadata(
        self, topics: Sequence[str], *, tries: int, then: Callable[[], None]
    ) -> None:
        """Call `then` once this broker's metadata has the topics, or after the last try."""
        if tries == 0 or all(name in self.image.topics for name in topics):
            then()
        else:
            self._later(
                _METADATA_POLL_MS, lambda: self._await_metadata(topics, tries=tries - 1, then=then)
            )

    def retry(self, deadline_ms: int, again: Callable[[], None]) -> bool:
        """Schedule `again` after the backoff; return False if the deadline has passed."""
        if self._clock.steady_ms() >= deadline_ms:
            return False
        self._later(RETRY_MS, again)
        return True

    def _deadline_ms(self) -> int:
        return self._clock.steady_ms() + self._static.settings.request_timeout_ms


class MembershipForwardingManager(ForwardingManager):
    """Forwards to the broker that ZooKeeper has as controller."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        membership: ClusterMembership,
        inter_broker_client: InterBrokerClient,
        clock: Clock,
        rng: Random,
        call_later: CallLater,
    ) -> None:
        super().__init__(static, clock=clock, rng=rng, call_later=call_later)
        self._inter_broker_client = inter_broker_client
        self.membership = membership

    @property
    def image(self) -> ClusterImage:
        return self.membership.metadata_cache.image

    @property
    def has_metadata(self) -> bool:
        return self.membership.metadata_cache.has_metadata

    @property
    def controller(self) -> DeferredEventQueue | None:
        controller = self.membership.controller
        return None if controller is None else controller.event_queue

    @property
    def controller_id(self) -> NodeId:
        return self.image.controller_id

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    def send_to_controller(
        self,
        request: Message,
        *,
        then: Callable[[Message], None],
        on_error: Failed,
        timeout_ms: int | None = None,
    ) -> None:
        controller_id = self.image.controller_id
        if controller_id == NO_CONTROLLER:
            self._later(0, lambda: on_error(ControllerFenced("no controller is elected")))
            return
        self._inter_broker_client.send_request(
            controller_id,
            request,
            purpose=Purpose.TO_CONTROLLER,
            timeout_ms=timeout_ms or self._static.settings.request_timeout_ms,
            then=then,
            on_error=on_error,
        )


class _Forwarding:
    """One client's request while it is forwarded."""

    __slots__ = ("_call", "_deadline_ms", "_envelope", "_manager", "_request")

    def __init__(
        self,
        manager: ForwardingManager,
        call: Call,
        request: Message,
        envelope: EnvelopeRequest,
        deadline_ms: int,
    ) -> None:
        self._manager = manager
        self._call = call
        self._request = request
        self._envelope = envelope
        self._deadline_ms = deadline_ms

    def send(self) -> None:
        if not self._call.is_disconnected:
            self._manager.send_to_controller(
                self._envelope, then=self._answered, on_error=self._failed
            )

    def _answered(self, response: Message) -> None:
        assert isinstance(response, EnvelopeResponse)
        if response.response_data is not None and not response.error_code:
            self._call.answer_content(response.response_data)
        elif response.error_code is ErrorCode.NOT_CONTROLLER:
            self._try_again(ApiError(response.error_code, "another broker is the controller"))
        else:
            self._fail(ApiError(response.error_code, "the controller rejected the envelope"))

    def _failed(self, error: HeadwaterError) -> None:
        api_error = ApiError(error.code, str(error))
        if isinstance(error, ConnectionLost | ControllerFenced):
            self._try_again(api_error)
        else:
            self._fail(api_error)

    def _try_again(self, api_error: ApiError) -> None:
        if not self._manager.retry(self._deadline_ms, self.send):
            self._fail(ApiError(ErrorCode.REQUEST_TIMED_OUT, api_error.reason))

    def _fail(self, api_error: ApiError) -> None:
        self._call.record_error(api_error.code)
        route = route_of(self._call.header.api.key)
        self._call.answer(route.error_response(self._request, api_error))
