"""A real schema registry for a test: a child process beside a broker.

    with EmbeddedBroker() as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        client = SchemaRegistryClient({"url": registry.url})

Note: schemas are not in its directory but in the topic `_schemas` of the broker, so that another
registry of the same broker has the same schemas.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.java_properties import format_properties
from headwater.common.settings.setting_types import Value, format_value
from headwater.testing.embedded_process import EmbeddedProcess

_READY = re.compile(r"headwater registry ready on (https?://[^ ]+)")


class EmbeddedRegistry(EmbeddedProcess):
    """A schema registry process. Start it with `with` or `start`; `close` ends it."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Value] | None = None,
        *,
        client_settings: Mapping[str, Value] | None = None,
        write_timeout_s: float = 10,
        timeout_s: float = 60,
    ) -> None:
        """`settings` are for the HTTP port, `client_settings` for Kafka clients.

        `timeout_s` is the timeout of a start and of a clean stop.
        """
        super().__init__(
            name="the schema registry",
            folder_prefix="headwater-registry-",
            log_name="registry.log",
            timeout_s=timeout_s,
        )
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._client_settings = dict(client_settings or {})
        self._write_timeout_s = write_timeout_s
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The URL for clients. Stays the same after a restart."""
        assert self._url is not None, "the schema registry was never started"
        return self._url

    def _arguments(self, folder: Path) -> list[str]:
        listen = "127.0.0.1:0" if self._url is None else self._url.partition("://")[2]
        command = ["registry", "start", "--bootstrap", self._bootstrap_servers]
        for option, settings in (
            ("--config", self._settings),
            ("--command-config", self._client_settings),
        ):
            if settings:
                # In files, because all users of a machine can see process arguments.
                file = folder / f"{option.strip('-')}.properties"
                file.touch(mode=0o600)
                texts = {name: format_value(value) or "" for name, value in settings.items()}
                file.write_bytes(format_properties(texts))
                command += [option, str(file)]
        return [*command, "--listen", listen, "--timeout", str(self._write_timeout_s)]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"unexpected first line of the registry: {line!r}")
        self._url = match[1]
