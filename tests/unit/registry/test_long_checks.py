"""Slow checks do not delay other requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headwater.registry.commands import register
from headwater.registry.registry_errors import RestError
from headwater.registry.registry_state import State
from headwater.registry.routes import PATHS
from headwater.registry.schema_store import SchemaStore
from headwater.registry.server import application
from headwater.testing import EmbeddedBroker
from tests.unit.registry.registry_schemas import KIND, KIND_AND_GRAMS, carry_out, record, submitted

TIMEOUT_S = 60


class HeldThreads(Executor):
    """An executor that runs a job at once or, while `is_holding`, on demand."""

    def __init__(self) -> None:
        self.is_holding = False
        self.held: list[Callable[[], None]] = []
        self.taken = asyncio.Event()

    def submit(  # type: ignore[override]
        self, job: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(job(*arguments))
            except RestError as error:
                future.set_exception(error)

        if self.is_holding:
            self.held.append(run)
            self.taken.set()
        else:
            run()
        return future


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


class Asked:
    """A registry accessed over ASGI."""

    def __init__(self, store: SchemaStore, threads: HeldThreads) -> None:
        self.threads = threads
        self._app = application(store, PATHS)

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": raw, "more_body": False}

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await self._app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])


@asynccontextmanager
async def asked(broker: EmbeddedBroker) -> AsyncIterator[Asked]:
    threads = HeldThreads()
    store = SchemaStore(broker.bootstrap_servers, timeout_s=TIMEOUT_S, executor=threads)
    try:
        await store.start()
        yield Asked(store, threads)
    finally:
        await store.close()


LONG = [
    ("POST", "/compatibility/subjects/held/versions/latest", {"is_compatible": True}),
    ("POST", "/subjects/held/versions", {"id": 2}),
]


@pytest.mark.parametrize(("method", "path", "expected"), LONG)
def test_other_requests_are_answered_during_a_slow_check(
    broker: EmbeddedBroker, method: str, path: str, expected: Any
) -> None:
    async def scenario() -> None:
        async with asked(broker) as ask:
            first = await ask("POST", "/subjects/held/versions", {"schema": KIND})
            assert first == (200, {"id": 1})
            ask.threads.is_holding = True
            long = asyncio.create_task(ask(method, path, {"schema": KIND_AND_GRAMS}))
            async with asyncio.timeout(TIMEOUT_S):
                await ask.threads.taken.wait()
                assert await ask("GET", "/subjects/held/versions/1/schema") == (
                    200,
                    json.loads(first_text(KIND)),
                )
                assert (await ask("GET", "/schemas/ids/1"))[0] == 200
                assert not long.done()
                for run in ask.threads.held:
                    run()
                assert await long == (200, expected)

    asyncio.run(scenario())


def first_text(schema: str) -> str:
    return json.dumps(json.loads(schema))


def test_snapshot_does_not_change_with_the_state() -> None:
    state = State()
    carry_out(state, register(state, "tea", submitted(KIND)))
    before = state.snapshot()
    carry_out(state, register(state, "tea", submitted(KIND_AND_GRAMS)))
    carry_out(state, register(state, "coffee", submitted(record(name="Coffee"))))
    assert [each.version for each in before.versions("tea")] == [1]
    assert sorted(before.subjects) == ["tea"]
    assert sorted(before.schemas) == [1]
    assert [each.version for each in state.versions("tea")] == [1, 2]
