"""A real broker for a test: a child process on a free port, with a folder of its own.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

What a reader would get wrong: it is not a fake, and not in this process. So it can be killed and
started again on the same port and folder, and it is gone when this process is, however that ends:
see `headwater.testing.child`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from headwater.model.failures import BrokerDidNotStart
from headwater.model.setting_kinds import Value, format_value
from headwater.testing.embedded_process import EmbeddedProcess

_READY = re.compile(r"headwater ready on ([^ ,]+)")

# What is of no use in a test: a new group waits three seconds for more members.
_FOR_TESTS: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}


class EmbeddedBroker(EmbeddedProcess):
    """Started by `with` or `start`, gone after `close` or with this process."""

    def __init__(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        data_directory: Path | str | None = None,
        patience_s: float = 30,
    ) -> None:
        """Settings have Kafka's names. A data directory that is given is kept, else it is removed.

        `patience_s` bounds how long a start and a clean stop may take.
        """
        super().__init__(
            name="the broker",
            folder_prefix="headwater-",
            log_name="broker.log",
            patience_s=patience_s,
        )
        self._settings = {**_FOR_TESTS, **(settings or {})}
        self._given_directory = None if data_directory is None else Path(data_directory)
        self._address: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it, as host:port. The same after a restart."""
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
        # A misspelled setting fails the test instead of being a warning in a log.
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
        raise BrokerDidNotStart(f"the broker does not say where it listens, but {line!r}")
    # A star stands for all interfaces.
    return match[1].replace("*", "127.0.0.1")
