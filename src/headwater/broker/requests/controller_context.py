"""What handlers of controller requests use of their process.

A `Broker` has it, and so has a KRaft controller, which is no broker.
"""

from collections.abc import Callable
from typing import Protocol

from headwater.broker.requests.call import Call
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.common.ids import NodeId
from headwater.common.ports import Clock, Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.api_key import ApiKey
from headwater.replication.purgatory.timer import Timer
from headwater.security.authorization.authorizer import Authorizer, Operation, Resource


class ControllerContext(Protocol):
    """The components of a process that may be the controller."""

    @property
    def static(self) -> StaticConfig: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def node_id(self) -> NodeId: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def rng(self) -> Random: ...

    @property
    def timer(self) -> Timer: ...

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def quotas(self) -> QuotaManagers | None: ...

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]: ...

    @property
    def image(self) -> ClusterImage:
        """The metadata that this process knows."""

    @property
    def forwarded_apis(self) -> frozenset[ApiKey]:
        """Requests that brokers may forward in an Envelope."""

    @property
    def is_controller(self) -> bool: ...

    @property
    def controller(self) -> DeferredEventQueue:
        """The controller's event queue; `ControllerFenced` if it is another process."""

    def is_authorized(self, call: Call, operation: Operation, resource: Resource) -> bool: ...

    def is_authorized_for_topic(self, call: Call, operation: Operation, topic: str) -> bool: ...

    def is_allowed(self, call: Call, operation: Operation, resource: Resource) -> bool:
        """As `is_authorized`, without logging a denial."""

    def is_allowed_for_topic(self, call: Call, operation: Operation, topic: str) -> bool: ...
