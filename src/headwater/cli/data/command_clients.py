"""Settings of the producers and consumers of commands: a file's, and what the command itself says.

What a reader would get wrong: a file that `--command-config` names may be an application's own. Its
group, its transactional id and its code are that application's: a look at a topic must not move
the group's offsets, nor may a line that is sent fence off its producer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.cli.terminal import client_settings

if TYPE_CHECKING:
    from headwater.client.settings import ClientSettings

_AN_APPLICATIONS: Final = frozenset(
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
    """What a client of this class is made with; what is given wins."""
    from headwater.client.settings import useful_settings

    found = useful_settings(cls, client_settings(bootstrap, command_config))
    shared = {name: value for name, value in found.items() if name not in _AN_APPLICATIONS}
    return {**shared, **useful_settings(cls, given)}
