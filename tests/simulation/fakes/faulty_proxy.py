"""A real broker behind a scripted proxy, for faults at any API.

    with FaultyProxy() as front:
        front.script(ApiKey.CREATE_TOPICS, HangUp())
        admin = Admin(bootstrap_servers=front.bootstrap_servers)

The broker advertises the proxy's address, so clients never bypass it.

Note: the proxy forwards one request at a time, so none may wait long at the broker.
"""

from typing import Any, Self

from headwater.network.free_ports import free_ports
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.messages import create_acls, delete_acls, describe_acls
from headwater.protocol.older_versions import Message
from headwater.testing import EmbeddedBroker
from tests.peers.raw_client import RawClient
from tests.simulation.fakes.mock_broker import BackgroundLoop, Fate, Handler, MockBroker

_NO_RIGHTS: dict[ApiKey, Message] = {
    ApiKey.DESCRIBE_ACLS: describe_acls.DescribeAclsResponse(),
    ApiKey.CREATE_ACLS: create_acls.CreateAclsResponse(results=(create_acls.AclCreationResult(),)),
    ApiKey.DELETE_ACLS: delete_acls.DeleteAclsResponse(
        filter_results=(delete_acls.DeleteAclsFilterResult(),)
    ),
}
"""ACL APIs, which a broker without an authorizer would only reject."""


class FaultyProxy:
    """One node as clients see it."""

    def __init__(self) -> None:
        handlers: dict[ApiKey, Handler] = {
            api.key: self._hand_on for api in APIS.values() if api.key is not ApiKey.API_VERSIONS
        }
        self.node = MockBroker(0, handlers, [])
        self._loop = BackgroundLoop()
        self._broker: EmbeddedBroker | None = None
        self._behind: RawClient | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.node.port}"

    def script(self, api: ApiKey, *fates: Fate) -> None:
        self.node.script(api, *fates)

    def is_scripted(self, api: ApiKey) -> bool:
        """Whether a scripted fault has not been used yet."""
        return bool(self.node.scripts[api])

    def stop(self) -> None:
        self._loop.do(self.node.stop())

    def start(self) -> None:
        self._loop.do(self.node.start())

    def __enter__(self) -> Self:
        self.start()
        (port,) = free_ports("127.0.0.1", 1)
        self._broker = EmbeddedBroker(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            }
        ).start()
        self._behind = RawClient(f"127.0.0.1:{port}")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.close()
        assert self._behind is not None
        assert self._broker is not None
        self._behind.close()
        self._broker.close()

    def _hand_on(self, _: MockBroker, request: Any, version: int) -> Message:
        assert self._behind is not None
        known = _NO_RIGHTS.get(request.api)
        return self._behind.ask(request, version) if known is None else known
