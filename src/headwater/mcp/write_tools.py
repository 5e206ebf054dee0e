"""Tools that change a cluster, for servers with `--allow-writes`."""

import logging
from typing import Annotated, Any, Final

from pydantic import Field

from headwater.console.connections import Connections
from headwater.console.console_errors import bad_request
from headwater.console.views.cluster_view import cluster_view
from headwater.console.views.topics import known_topic
from headwater.pipelines.run.run_records import TOPIC

_BROKER_DEFAULT: Final = -1
_OWNED: Final = ("_schemas", TOPIC)
"""Topics of the schema registry and of pipelines: a record there is a command."""

log = logging.getLogger(__name__)


class WriteTools:
    """The tools that write. Nothing here deletes."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def produce_record(
        self,
        topic: Annotated[str, Field(description="Topic name; the topic must exist.")],
        value: Annotated[str | None, Field(description="Value, as text; null is a tombstone.")],
        key: Annotated[str | None, Field(description="Key, as text.")] = None,
        partition: Annotated[
            int | None, Field(ge=0, description="Partition; default: by the key.")
        ] = None,
        headers: Annotated[dict[str, str] | None, Field(description="Headers, as text.")] = None,
    ) -> dict[str, Any]:
        """Produce one record and wait for its acknowledgement.

        Produce only what the user wants.
        """
        # A producer would create the topic.
        known = known_topic(await cluster_view(self._connections.admin), topic)
        if known.is_internal or topic in _OWNED:
            raise bad_request(f"'{topic}' is written by its owners only.")
        sent = await self._connections.producer().send_and_wait(
            topic,
            None if value is None else value.encode(),
            key=None if key is None else key.encode(),
            partition=partition,
            headers=[(name, each.encode()) for name, each in (headers or {}).items()],
        )
        log.info(
            "Change: record-produced topic=%s partition=%d offset=%d",
            topic,
            sent.partition,
            sent.offset,
        )
        return {"topic": topic, "partition": sent.partition, "offset": sent.offset}

    async def create_topic(
        self,
        name: Annotated[str, Field(description="Topic name.")],
        partitions: Annotated[
            int | None, Field(ge=1, description="Number of partitions; default: the broker's.")
        ] = None,
        replication_factor: Annotated[
            int | None,
            Field(ge=1, description="Replicas of each partition; default: the broker's."),
        ] = None,
        configs: Annotated[
            dict[str, str] | None, Field(description="Configs, such as retention.ms.")
        ] = None,
    ) -> dict[str, Any]:
        """Create a topic.

        Create only what the user wants; there is no tool to delete it.
        """
        await self._connections.admin.create_topic(
            name,
            partitions=_BROKER_DEFAULT if partitions is None else partitions,
            replication_factor=_BROKER_DEFAULT
            if replication_factor is None
            else replication_factor,
            configs=configs or {},
        )
        log.info("Change: topic-created topic=%s", name)
        return {"created": name}
