"""A real schema registry for a test: a child process on a free port, beside a broker.

    with EmbeddedBroker() as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        client = SchemaRegistryClient({"url": registry.url})

What a reader would get wrong: its schemas are not in its folder. They are in the broker's topic
`_schemas`, and so another registry beside the same broker has the same ones.
"""

import re
from pathlib import Path

from headwater.model.failures import BrokerDidNotStart
from headwater.testing.embedded_process import EmbeddedProcess

_READY = re.compile(r"headwater registry ready on (http://[^ ]+)")


class EmbeddedRegistry(EmbeddedProcess):
    """Started by `with` or `start`, gone after `close` or with this process."""

    def __init__(
        self, bootstrap_servers: str, *, write_timeout_s: float = 10, patience_s: float = 60
    ) -> None:
        """`patience_s` bounds how long a start and a clean stop may take."""
        super().__init__(
            name="the schema registry",
            folder_prefix="headwater-registry-",
            log_name="registry.log",
            patience_s=patience_s,
        )
        self._bootstrap_servers = bootstrap_servers
        self._write_timeout_s = write_timeout_s
        self._url: str | None = None

    @property
    def url(self) -> str:
        """Where clients find it. The same after a restart."""
        assert self._url is not None, "the schema registry was never started"
        return self._url

    def _arguments(self, folder: Path) -> list[str]:
        del folder
        listen = "127.0.0.1:0" if self._url is None else self._url.removeprefix("http://")
        command = ["registry", "start", "--bootstrap", self._bootstrap_servers]
        return [*command, "--listen", listen, "--timeout", str(self._write_timeout_s)]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"the registry does not say where it listens, but {line!r}")
        self._url = match[1]
