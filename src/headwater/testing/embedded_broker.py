"""A real broker for a test: a child process with a free port and directory.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Note: it is not a fake and not in this process. It can be killed and restarted on the same port and
data, and it ends when this process ends for any reason: see `headwater.testing.child`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.setting_types import Value, format_value
from headwater.testing.embedded_process import EmbeddedProcess

_READY = re.compile(r"headwater ready on ([^ ,]+)")

# Saves the three seconds that a new group waits for more members.
_FOR_TESTS: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}


class EmbeddedBroker(EmbeddedProcess):
    """A broker process, started by `with` or `start`; `close` removes its data."""

    def __init__(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        data_directory: Path | str | None = None,
        timeout_s: float = 30,
    ) -> None:
        """Settings have Kafka's names; only the default data directory is removed.

        `timeout_s` is the timeout of a start and of a clean stop.
        """
        super().__init__(
            name="the broker",
            folder_prefix="headwater-",
            log_name="broker.log",
            timeout_s=timeout_s,
        )
        self._settings = {**_FOR_TESTS, **(settings or {})}
        self._given_directory = None if data_directory is None else Path(data_directory)
        self._address: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, host:port. Stays the same after a restart."""
        assert self._address is not None, "the broker was never started"
        return self._address

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data_directory(self) -> Path:
        if self._given_directory is not None:
            return self._given_directory
        assert self._folder is not None, "the broker was never started"
        return self._folder / "data"

    def _arguments(self, folder: Path) -> list[str]:
        # With --strict a misspelt setting fails the test instead of logging a warning.
        arguments = ["start", "--strict"]
        if "log.dirs" not in self._settings:
            arguments += ["--data", str(self._given_directory or folder / "data")]
        if "listeners" not in self._settings:
            arguments += ["--listen", self._address or "127.0.0.1:0"]
        for name, value in self._settings.items():
            arguments += ["-o", f"{name}={format_value(value)}"]
        return arguments

    def _serves(self, line: str) -> None:
        if self._address is None:
            self._address = _address_in(line)


def _address_in(line: str) -> str:
    match = _READY.match(line)
    if match is None:
        raise BrokerDidNotStart(f"unexpected first line of the broker: {line!r}")
    # A star means all interfaces.
    return match[1].replace("*", "127.0.0.1")
