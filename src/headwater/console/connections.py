"""The console's Kafka clients and schema registry client.

Note: nothing is connected at creation. The console starts without a cluster and reports it on its
pages, because users look at the console precisely when the cluster is down.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from headwater.client.aio import Admin, Consumer, Producer
from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    RegistryUnreachable,
    SchemaNotFound,
    SchemaRegistry,
)
from headwater.client.serialization.schema_registry_serde import (
    RegisteredDeserializer,
    schema_id_of,
)
from headwater.client.serialization.serdes import Deserializer
from headwater.console.views.record_decoder import PREFIX_BYTES, ReadRegistered, Registered

API_TIMEOUT_MS: Final = 8_000
REGISTRY_TIMEOUT_S: Final = 5.0
FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
UNKNOWN_SCHEMAS_MAX: Final = 5
"""Number of unknown schema ids after which a page stops asking the registry."""

_CLIENT_ID: Final = "headwater-console"


class Connections:
    """Create and use it on one running event loop."""

    def __init__(
        self,
        bootstrap: str,
        options: Mapping[str, object],
        *,
        registry_url: str | None = None,
        registry_settings: Mapping[str, object] | None = None,
    ) -> None:
        """`options` are client settings under Kafka's names, such as those of TLS.

        `registry_settings` are settings of the registry client, under Confluent's names.

        Raises `InvalidSetting`, also if a registry is given and fastavro is not installed.
        """
        self.bootstrap = bootstrap
        # Shown on pages, so without credentials.
        self.registry_url = None if registry_url is None else _without_credentials(registry_url)
        self._settings: dict[str, object] = {
            "client.id": _CLIENT_ID,
            **options,
            "bootstrap.servers": bootstrap,
        }
        self.admin = Admin({**self._settings, "default.api.timeout.ms": API_TIMEOUT_MS})
        self._producer: Producer | None = None
        self.registry: SchemaRegistry | None = None
        self._deserializer: ReadRegistered | None = None
        if registry_url:
            self.registry = SchemaRegistry(
                registry_url, registry_settings, timeout=REGISTRY_TIMEOUT_S
            )
            self._deserializer = _AnyDeserializer(self.registry)

    def consumer(self, *, committed_only: bool = False, max_wait_ms: int = 500) -> Consumer:
        """Create a consumer without a group; the caller closes it.

        `max_wait_ms` is `fetch.max.wait.ms`. Searches over many partitions use a small one, because
        they often fetch at a partition's end.
        """
        return Consumer(
            {
                **self._settings,
                "allow.auto.create.topics": False,
                "auto.offset.reset": "earliest",
                "default.api.timeout.ms": API_TIMEOUT_MS,
                "enable.auto.commit": False,
                "fetch.max.bytes": FETCH_BYTES_MAX,
                "fetch.max.wait.ms": max_wait_ms,
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            }
        )

    def producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._settings,
                    "delivery.timeout.ms": API_TIMEOUT_MS,
                    "max.block.ms": API_TIMEOUT_MS,
                    "request.timeout.ms": API_TIMEOUT_MS - 1_000,
                    "linger.ms": 0,
                }
            )
        return self._producer

    def registered(self) -> ReadRegistered | None:
        """Deserializer for the records of one page; it blocks. None without a registry."""
        return None if self._deserializer is None else _PageDeserializer(self._deserializer)

    async def close(self) -> None:
        await self.admin.close()
        if self._producer is not None:
            await self._producer.close(timeout=1.0)
        if self.registry is not None:
            await asyncio.to_thread(self.registry.close)


def _without_credentials(urls: str) -> str:
    shown = []
    for each in urls.split(","):
        scheme, mark, rest = each.strip().rpartition("://")
        shown.append(f"{scheme}{mark}{rest.rpartition('@')[2]}")
    return ",".join(shown)


class _AnyDeserializer(RegisteredDeserializer[str]):
    """Deserialize by the schema's type. JSON values are left to the caller."""

    def __init__(self, registry: SchemaRegistry) -> None:
        from headwater.client.avro import AvroDeserializer

        super().__init__(registry)
        self._avro = AvroDeserializer(registry)
        self._protobuf: Deserializer | None = None

    def __call__(self, raw: bytes) -> Registered:
        schema_type = self._schema_of(schema_id_of(raw))
        match schema_type:
            case "JSON":
                return Registered(schema_type)
            case "PROTOBUF":
                return Registered(schema_type, self._read_protobuf(raw))
            case _:
                return Registered(schema_type, self._avro(raw))

    def _read_protobuf(self, raw: bytes) -> Any:
        if self._protobuf is None:
            # Not before it is needed: the runtime is not part of every installation.
            from headwater.client.protobuf import ProtobufDeserializer

            self._protobuf = ProtobufDeserializer(self._registry, as_dict=True)
        return self._protobuf(raw)

    def _parsed(self, schema: RegisteredSchema) -> str:
        return schema.schema_type


class _PageDeserializer:
    """Limit the number of unknown schema ids that one page looks up in the registry.

    Binary data that starts with a zero byte looks like a schema id, a different one in each record.
    """

    def __init__(self, deserializer: ReadRegistered) -> None:
        self._deserializer = deserializer
        self._unknown: dict[bytes, str] = {}
        self._failure: str | None = None

    def __call__(self, raw: bytes) -> Registered:
        prefix = raw[:PREFIX_BYTES]
        failure = self._failure or self._unknown.get(prefix)
        if failure is not None:
            raise SerializationFailed(failure)
        try:
            return self._deserializer(raw)
        except RegistryUnreachable as error:
            self._failure = str(error)
            raise
        except SerializationFailed as error:
            if isinstance(error.__cause__, SchemaNotFound):
                self._unknown[prefix] = str(error)
                if len(self._unknown) >= UNKNOWN_SCHEMAS_MAX:
                    self._failure = "the registry has none of the schema ids that were looked up"
            raise
