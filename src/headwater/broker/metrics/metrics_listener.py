"""Serve `/metrics` for Prometheus and `/healthz` over HTTP.

The port opens once the broker serves requests and closes with it, so any response to `/healthz`
means that the broker is ready.
"""

import asyncio
from collections.abc import Callable, Sequence

from headwater.broker.metrics.prometheus_exposition import CONTENT_TYPE, Family, exposition
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.network.endpoint import Endpoint, parse_address
from headwater.network.http_listener import HttpListener, HttpResponse


def metrics_endpoint(settings: BrokerSettings) -> Endpoint | None:
    """Return the endpoint of `headwater.metrics.listener`; None if it is not set."""
    address = settings.headwater_metrics_listener
    if address is None:
        return None
    try:
        return parse_address(address, name="METRICS")
    except InvalidSetting as error:
        raise InvalidSetting(f"headwater.metrics.listener: {error}") from error


def metrics_port(
    loop: asyncio.AbstractEventLoop,
    settings: BrokerSettings,
    families: Callable[[], Sequence[Family]],
    *,
    now_ms: int,
) -> HttpListener | None:
    """Bind the metrics listener without starting it; None if it is not configured."""
    endpoint = metrics_endpoint(settings)
    if endpoint is None:
        return None

    def answering(path: str) -> HttpResponse | None:
        match path:
            case "/metrics":
                return HttpResponse(content_type=CONTENT_TYPE, pieces=exposition(families()))
            case "/healthz":
                return HttpResponse(content_type="text/plain", pieces=iter([b"ok\n"]))
        return None

    return HttpListener(loop, endpoint, answering, now_ms=now_ms)
