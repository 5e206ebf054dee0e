"""Several servers in one process: order, readiness, failures."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from headwater.common.exceptions import CannotListen
from headwater.http_server.service_group import GroupedService, ServiceFailed, run_services

Serve = Callable[[Callable[[str], None], asyncio.Event], Awaitable[None]]


def serving(name: str, events: list[str]) -> GroupedService:
    async def serve(ready: Callable[[str], None], ended: asyncio.Event) -> None:
        events.append(f"{name} starts")
        ready(f"http://{name}")
        await ended.wait()
        events.append(f"{name} ends")

    return GroupedService(name, serve)


def failing(name: str, error: Exception | None, *, after_ready: bool = False) -> GroupedService:
    async def serve(ready: Callable[[str], None], _: asyncio.Event) -> None:
        if after_ready:
            ready(f"http://{name}")
            # The group has seen it ready when this runs again.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if error is not None:
            raise error

    return GroupedService(name, serve)


def test_services_start_in_order_and_end_when_asked() -> None:
    events: list[str] = []

    async def run() -> None:
        ended = asyncio.Event()

        def ready(urls: Mapping[str, str]) -> None:
            events.append(f"ready {dict(urls)}")
            ended.set()

        await run_services([serving("a", events), serving("b", events)], ended, ready=ready)

    asyncio.run(run())
    assert events[:3] == ["a starts", "b starts", "ready {'a': 'http://a', 'b': 'http://b'}"]
    assert sorted(events[3:]) == ["a ends", "b ends"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CannotListen("cannot listen on h:1: in use"), "b: cannot listen on h:1: in use"),
        (None, "b: it ended by itself"),
    ],
)
@pytest.mark.parametrize("after_ready", [False, True])
def test_a_service_that_ends_ends_all_and_is_named(
    error: Exception | None, reason: str, after_ready: bool
) -> None:
    events: list[str] = []
    services = [
        serving("a", events),
        failing("b", error, after_ready=after_ready),
        serving("c", events),
    ]
    with pytest.raises(ServiceFailed) as caught:
        asyncio.run(run_services(services, asyncio.Event(), ready=lambda _: None))
    assert str(caught.value) == reason
    assert events.count("a ends") == 1
    assert events.count("c starts") == events.count("c ends")
    if not after_ready:
        assert "c starts" not in events


def test_an_unexpected_exception_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(
            run_services([failing("a", ZeroDivisionError())], asyncio.Event(), ready=lambda _: None)
        )


def test_a_stop_while_a_service_starts_ends_the_group() -> None:
    async def run() -> list[str]:
        ended = asyncio.Event()
        announced: list[str] = []

        async def slow(_: Callable[[str], None], ended: asyncio.Event) -> None:
            await ended.wait()

        asyncio.get_running_loop().call_soon(ended.set)
        await run_services([GroupedService("slow", slow)], ended, ready=announced.extend)
        return announced

    assert asyncio.run(run()) == []
