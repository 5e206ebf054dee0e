"""Client settings of commands: the --command-config file, then the options.

Note: the file may be shared with an application. Its group id, transactional id, interceptors and
serializers are left out: consuming from the command line must not move the application's offsets,
and producing must not fence its producer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.cli.terminal import client_settings

if TYPE_CHECKING:
    from headwater.client.settings import ClientSettings

_APPLICATION_SETTINGS: Final = frozenset(
    {
        "group.id",
        "group.instance.id",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)


def console_settings(
    cls: "type[ClientSettings]",
    bootstrap: str,
    command_config: Path | None,
    given: Mapping[str, object],
) -> dict[str, object]:
    """Settings for a client of this class; the values in `given` win."""
    from headwater.client.settings import supported_settings

    found = supported_settings(cls, client_settings(bootstrap, command_config))
    shared = {name: value for name, value in found.items() if name not in _APPLICATION_SETTINGS}
    return {**shared, **supported_settings(cls, given)}
