"""Brokers for tests with other clients, whose logs must be free of errors."""

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker

_TIMEOUT_S = 60


@contextmanager
def checked_broker(
    settings: Mapping[str, Value] | None = None, *, data_directory: str | None = None
) -> Iterator[EmbeddedBroker]:
    """A broker that fails its test at the end if its log has errors."""
    with EmbeddedBroker(settings, data_directory=data_directory) as broker:
        yield broker
        check_log(broker.log_text)


def check_log(text: str) -> None:
    assert "Traceback" not in text, text
    assert " ERROR " not in text, text


def scrape(broker: EmbeddedBroker) -> dict[str, float]:
    """Return the broker's metrics by name and labels. It needs `headwater.metrics.listener`."""
    lines = scrape_text(broker).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def scrape_text(broker: EmbeddedBroker) -> str:
    """Return the broker's metrics as Prometheus gets them."""
    url = broker.log_text.rpartition("Serving metrics at ")[2].split()[0]
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
    return text


def requests_answered(broker: EmbeddedBroker, name: str) -> int:
    """Return the number of requests of one API that the broker has answered since startup."""
    return int(
        scrape(broker).get(
            f'kafka_network_requestmetrics_totaltime_seconds_count{{request="{name}"}}', 0
        )
    )
