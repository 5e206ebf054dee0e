"""Where a broker serves its metrics. Pure.

Note: only the port comes from the broker's configs. The host is the one that the console's Kafka
clients already connect to, and the path is fixed, so that a broker's configs cannot make the
console send requests to other machines (SSRF).
"""

from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.network.endpoint import parse_address
from headwater.network.http_client import HttpLocation

LISTENER_CONFIG: Final = "headwater.metrics.listener"

_TARGET: Final = "/metrics"


def parse_location(text: str) -> HttpLocation:
    """Parse an address of `--metrics`; `InvalidSetting` if it is not host:port."""
    address = text.removeprefix("http://").removesuffix("/").removesuffix("/metrics")
    endpoint = parse_address(address, name="METRICS")
    if not endpoint.host or not endpoint.port:
        raise InvalidSetting(f"--metrics {text!r} is not host:port")
    return HttpLocation(scheme="http", host=endpoint.host, port=endpoint.port, target=_TARGET)


def metrics_location(broker_host: str, listener: str | None) -> HttpLocation | None:
    """The metrics of a broker by its config; None if it serves none at a known port."""
    if not listener:
        return None
    try:
        endpoint = parse_address(listener, name="METRICS")
    except InvalidSetting:
        return None
    if not endpoint.port:
        return None
    return HttpLocation(scheme="http", host=broker_host, port=endpoint.port, target=_TARGET)
