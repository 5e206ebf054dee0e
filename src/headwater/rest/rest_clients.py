"""The Kafka clients of the REST API: admin client, producer and consumers.

All requests share the admin client and the producer, so that a request opens no connection, and
records of concurrent requests travel in the same batches.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from headwater.client.aio import Admin, Consumer, Producer
from headwater.client.errors import KafkaError
from headwater.rest.formats.schema_formats import SchemaFormats
from headwater.rest.rest_errors import RestProxyError
from headwater.rest.rest_settings import ADMIN, CLIENT, CONSUMER, PRODUCER, client_part

_CLIENT_ID: Final = "headwater-rest"
_API_TIMEOUT_MS: Final = 10_000
_MAX_BLOCK_MS: Final = 5_000
_DELIVERY_TIMEOUT_MS: Final = 30_000
_CLOSE_S: Final = 5.0


class RestClients:
    """Create and use it on one running event loop."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, object],
        shared: Mapping[str, object],
        schemas: SchemaFormats,
    ) -> None:
        """`settings` have the prefixes of Confluent's proxy, `shared` has none.

        Raises `InvalidSetting`.
        """
        self.bootstrap = bootstrap
        self.schemas = schemas
        self._settings = settings
        self._shared = {"client.id": _CLIENT_ID, **shared, "bootstrap.servers": bootstrap}
        self.admin = Admin(
            {
                "default.api.timeout.ms": _API_TIMEOUT_MS,
                **self._shared,
                **client_part(settings, CLIENT, ADMIN),
            }
        )
        self.producer = Producer(
            {
                "max.block.ms": _MAX_BLOCK_MS,
                "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "request.timeout.ms": _API_TIMEOUT_MS,
                "linger.ms": 0,
                **self._shared,
                **client_part(settings, CLIENT, PRODUCER),
            }
        )
        self._cluster_id: str | None = None

    async def cluster_id(self) -> str:
        """The id of the cluster, asked once."""
        if self._cluster_id is None:
            self._cluster_id = (await self.admin.describe_cluster()).cluster_id
        return self._cluster_id

    async def check_cluster(self, cluster_id: str) -> None:
        """Reject a request for another cluster."""
        if cluster_id != await self.cluster_id():
            raise RestProxyError(404, f"Cluster {cluster_id} cannot be found.")

    async def partition_count(self, topic: str) -> int:
        """The partitions of a topic, from the producer's metadata if it has them."""
        return len(await self.producer.partitions_for(topic))

    def consumer(self, own: Mapping[str, Any]) -> Consumer:
        """Create a consumer; the caller closes it. Raises `InvalidSetting`."""
        return Consumer(
            {
                "default.api.timeout.ms": _API_TIMEOUT_MS,
                **self._shared,
                **client_part(self._settings, CLIENT, CONSUMER),
                **own,
            }
        )

    async def close(self) -> None:
        await self.admin.close()
        # Without a cluster, the requests that sent the records have their errors.
        with suppress(KafkaError):
            await self.producer.close(timeout=_CLOSE_S)
        self.schemas.close()
