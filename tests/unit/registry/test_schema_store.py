"""The schema store: writes are read back before they are answered; fenced writers decide again."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from headwater.client.aio import Producer
from headwater.registry.commands import RegistryChange, register
from headwater.registry.registry_state import State
from headwater.registry.schema_store import SchemaStore
from headwater.registry.schemas_topic_records import SchemaValue
from headwater.testing import EmbeddedBroker
from tests.unit.registry.registry_schemas import record, submitted


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@asynccontextmanager
async def opened(broker: EmbeddedBroker) -> AsyncIterator[SchemaStore]:
    store = SchemaStore(broker.bootstrap_servers, timeout_s=60)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


async def write(store: SchemaStore, subject: str) -> int:
    given = submitted(record(name=f"R_{subject}"))
    answer = await store.execute(lambda state: register(state, subject, given))
    assert isinstance(answer, SchemaValue)
    return answer.id


def test_write_is_visible_when_it_is_answered(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with opened(broker) as store:
            for number in range(5):
                schema_id = await write(store, f"known{number}")
                assert store.state.subjects[f"known{number}"][1].id == schema_id

    asyncio.run(scenario())


def test_fenced_writer_decides_again(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with opened(broker) as one, opened(broker) as other:
            await write(one, "first")
            assert await write(other, "second") == await write(one, "first") + 1
            seen: list[list[str]] = []

            def decide(state: State) -> RegistryChange:
                seen.append(sorted(state.subjects))
                return register(state, "third", submitted(record(name="R_third")))

            await one.execute(decide)
            # It was fenced at the first attempt and decided again.
            assert len(seen) == 2 or "second" in seen[0]
            assert "second" in seen[-1]

    asyncio.run(scenario())


def test_unfinished_transaction_of_a_fenced_instance_is_aborted(
    broker: EmbeddedBroker,
) -> None:
    async def scenario() -> None:
        async with opened(broker) as store:
            dying = Producer(
                bootstrap_servers=broker.bootstrap_servers,
                transactional_id="headwater-schema-registry",
            )
            await dying.init_transactions()
            await dying.begin_transaction()
            key = b'{"keytype":"SCHEMA","subject":"half","version":1,"magic":1}'
            value = b'{"subject":"half","version":1,"id":999,"schema":"\\"int\\""}'
            await (await dying.send("_schemas", value, key=key, partition=0))
            assert await write(store, "whole") < 999
            assert "half" not in store.state.subjects
            await dying.close(0)

    asyncio.run(scenario())
