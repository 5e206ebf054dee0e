"""The console's clients of one cluster, and its client of a registry.

What a reader would get wrong: nothing is connected when this is made. A console starts without a
cluster and says so on its pages, because that is when somebody looks at them.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

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
from headwater.console.views.record_decoder import PREFIX_BYTES, ReadRegistered, Registered

API_TIMEOUT_MS: Final = 8_000
REGISTRY_TIMEOUT_S: Final = 5.0
FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
UNKNOWN_SCHEMAS_MAX: Final = 5
"""Schemas that a page asks for in vain."""

_CLIENT_ID: Final = "headwater-console"


class Connections:
    """Made inside a running loop, and used on it."""

    def __init__(
        self,
        bootstrap: str,
        options: Mapping[str, object],
        *,
        registry_url: str | None = None,
        registry_settings: Mapping[str, object] | None = None,
    ) -> None:
        """`options` are client settings under Kafka's names, such as those of TLS.

        `registry_settings` are such of the registry's client, under Confluent's names.

        Raises `InvalidSetting`, also where a registry is given and fastavro is not installed.
        """
        self.bootstrap = bootstrap
        # For pages: whoever reads them need not know the password.
        self.registry_url = None if registry_url is None else _without_logins(registry_url)
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
        """One in no group, which is closed by whoever asked for it.

        `max_wait_ms` is how long brokers hold a fetch back that finds nothing. Who reads here and
        there in many partitions waits for no such fetch gladly.
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
        """What reads values with schemas, for one page; it blocks. None without a registry."""
        return None if self._deserializer is None else _Reading(self._deserializer)

    async def close(self) -> None:
        await self.admin.close()
        if self._producer is not None:
            await self._producer.close(timeout=1.0)
        if self.registry is not None:
            await asyncio.to_thread(self.registry.close)


def _without_logins(urls: str) -> str:
    shown = []
    for each in urls.split(","):
        scheme, mark, rest = each.strip().rpartition("://")
        shown.append(f"{scheme}{mark}{rest.rpartition('@')[2]}")
    return ",".join(shown)


class _AnyDeserializer(RegisteredDeserializer[str]):
    """Reads a value by the type of its schema. What is JSON is left to whoever shows it."""

    def __init__(self, registry: SchemaRegistry) -> None:
        from headwater.client.avro import AvroDeserializer

        super().__init__(registry)
        self._avro = AvroDeserializer(registry)

    def __call__(self, raw: bytes) -> Registered:
        schema_type = self._schema_of(schema_id_of(raw))
        return Registered(schema_type, None if schema_type == "JSON" else self._avro(raw))

    def _parsed(self, schema: RegisteredSchema) -> str:
        return schema.schema_type


class _Reading:
    """Asks a registry in vain a few times for a page, and not for each of its records.

    Bytes that begin with a zero often have no schema, and each of them would name one of its own.
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
                    self._failure = "the registry has none of the schemas that were tried"
            raise
