"""Compute throughput from the brokers' metrics, scraped every few seconds.

Note: a restarted broker counts from zero, so a counter that is lower than before counts in full.
"""

import asyncio
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.common.exceptions import HttpFetchFailed, InvalidSetting
from headwater.common.ports import Clock
from headwater.network.endpoint import parse_address
from headwater.network.http_client import HttpLocation, fetch

SCRAPE_EVERY_S: Final = 5.0
POINTS_MAX: Final = 60
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024

_TIMEOUT_S: Final = 3.0
_PREFIX: Final = "kafka_server_brokertopicmetrics_"
_SAMPLE: Final = re.compile(
    rf"^{_PREFIX}(messagesin|bytesin|bytesout)_total(?:\{{([^}}]*)\}})? ([0-9.eE+-]+)",
    re.MULTILINE,
)


class Counters(NamedTuple):
    """A broker's counters since its start."""

    records_in: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """Rates per second of all brokers, at a moment."""

    at_ms: int
    records_in: float
    bytes_in: float
    bytes_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates of the last minutes, oldest first, and errors of metrics endpoints."""

    points: tuple[RatePoint, ...]
    complaints: dict[str, str]
    addresses: tuple[str, ...]


class MetricsWatch:
    """Scrape the brokers' metrics periodically."""

    def __init__(self, addresses: Sequence[str], clock: Clock) -> None:
        """`InvalidSetting` if an address is not host:port."""
        self._addresses = {each: _location(each) for each in addresses}
        self._clock = clock
        self._points: deque[RatePoint] = deque(maxlen=POINTS_MAX)
        self._complaints: dict[str, str] = {}
        self._before: dict[str, Counters] = {}
        self._before_ms: int | None = None

    @property
    def rates(self) -> Rates | None:
        """None if no address is configured."""
        if not self._addresses:
            return None
        return Rates(
            points=tuple(self._points),
            complaints=dict(self._complaints),
            addresses=tuple(self._addresses),
        )

    async def run(self) -> None:
        """Scrape until cancelled."""
        while self._addresses:
            await self._scrape()
            await asyncio.sleep(SCRAPE_EVERY_S)

    async def _scrape(self) -> None:
        found: dict[str, Counters] = {}
        for name, location in self._addresses.items():
            try:
                found[name] = counters_of(await asyncio.to_thread(_metrics_text, location))
                self._complaints.pop(name, None)
            except (HttpFetchFailed, ValueError) as error:
                self._complaints[name] = str(error)
        now_ms = self._clock.steady_ms()
        if self._before_ms is not None:
            elapsed_s = max(now_ms - self._before_ms, 1) / 1000
            at_ms = self._clock.now_ms()
            self._points.append(rate(self._before, found, elapsed_s=elapsed_s, at_ms=at_ms))
        self._before |= found
        self._before_ms = now_ms


def counters_of(text: str) -> Counters:
    """Parse the three counters.

    Note: totals, if present, replace the sum of the topics' counters, which would count them twice.
    """
    topics = dict.fromkeys(("messagesin", "bytesin", "bytesout"), 0.0)
    sums: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        if "topic=" in labels and 'topic=""' not in labels:
            topics[name] += float(value)
        else:
            sums[name] = sums.get(name, 0.0) + float(value)
    found = {**topics, **sums}
    return Counters(found["messagesin"], found["bytesin"], found["bytesout"])


def rate(
    before: Mapping[str, Counters],
    after: Mapping[str, Counters],
    *,
    elapsed_s: float,
    at_ms: int,
) -> RatePoint:
    """Rates since the previous scrape; zero for a broker without one."""
    totals = [0.0, 0.0, 0.0]
    for name, counters in after.items():
        if name not in before:
            continue
        for index, (old, new) in enumerate(zip(before[name], counters, strict=True)):
            totals[index] += new - old if new >= old else new
    records_in, bytes_in, bytes_out = (each / elapsed_s for each in totals)
    return RatePoint(at_ms=at_ms, records_in=records_in, bytes_in=bytes_in, bytes_out=bytes_out)


def _location(text: str) -> HttpLocation:
    address = text.removeprefix("http://").removesuffix("/").removesuffix("/metrics")
    endpoint = parse_address(address, name="METRICS")
    if not endpoint.host or not endpoint.port:
        raise InvalidSetting(f"--metrics {text!r} is not host:port")
    return HttpLocation(scheme="http", host=endpoint.host, port=endpoint.port, target="/metrics")


def _metrics_text(location: HttpLocation) -> str:
    raw = fetch(location, timeout_s=_TIMEOUT_S, limit_bytes=ANSWER_BYTES_MAX)
    return raw.decode("utf-8", "replace")
