"""Requests per second and CPU time per request of the REST API.

Requests are built once and sent over persistent connections, each of which waits for its response:
so the rate is that of so many concurrent clients. The CPU time is that of the REST server only.
"""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.harness import Bench
from bench.processes import Server, broker
from bench.topics import create_topic

CONNECTIONS: Final = 16
REQUESTS: Final = 4_000
RECORDS: Final = 100
TOPIC: Final = "rested"

_JSON: Final = "application/vnd.kafka.json.v2+json"
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        create_topic(server, TOPIC)
        command = [str(Path(sys.executable).parent / "headwater"), "rest", "start"]
        options = ["--bootstrap", server.address, "--listen", "127.0.0.1:0"]
        with Server([*command, *options]) as rest:
            asyncio.run(_measure(bench, rest))


async def _measure(bench: Bench, rest: Server) -> None:
    clusters = json.loads(await _ask(rest.port, _request("GET", "/v3/clusters")))
    records = f"/v3/clusters/{clusters['data'][0]['cluster_id']}/topics/{TOPIC}/records"
    value = {"name": "green", "grams": 125, "note": "x" * 60}
    one = {"records": [{"value": value}]}
    many = {"records": [{"value": value}] * RECORDS}
    stream = {"value": {"type": "JSON", "data": value}}
    requests = {
        "produce 1 record (v2)": (_request("POST", f"/topics/{TOPIC}", one, _JSON), REQUESTS, 1),
        f"produce {RECORDS} records (v2)": (
            _request("POST", f"/topics/{TOPIC}", many, _JSON),
            REQUESTS // 10,
            RECORDS,
        ),
        "produce 1 record (v3)": (
            _request("POST", records, stream, "application/json"),
            REQUESTS,
            1,
        ),
        "metadata of a topic (v2)": (
            _request("GET", f"/topics/{TOPIC}/partitions"),
            REQUESTS // 2,
            0,
        ),
    }
    for name, (request, count, record_count) in requests.items():
        await _load(rest.port, request, CONNECTIONS * 5)
        cpu_s, began = rest.cpu_seconds, time.perf_counter()
        await _load(rest.port, request, count)
        took_s = time.perf_counter() - began
        cpu_s = rest.cpu_seconds - cpu_s
        rate = f"{count * record_count / took_s:,.0f} records/s" if record_count else None
        bench.record(f"{name}: rate", count / took_s, "requests/s", compared_with=rate)
        bench.record(f"{name}: CPU", cpu_s / count * 1e6, "us/request")


async def _load(port: int, request: bytes, count: int) -> None:
    """Send requests over several connections, one after the other on each."""
    left = iter(range(count))

    async def run() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(request)
            await _answer(reader)
        writer.close()

    await asyncio.gather(*(run() for _ in range(CONNECTIONS)))


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await _answer(reader)
    writer.close()
    return answer


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = _LENGTH.search(head)
    assert length is not None, head
    return await reader.readexactly(int(length[1]))


def _request(method: str, path: str, body: Any = None, media_type: str = "") -> bytes:
    raw = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if raw:
        head += f"Content-Type: {media_type}\r\nContent-Length: {len(raw)}\r\n"
    return head.encode() + b"\r\n" + raw
