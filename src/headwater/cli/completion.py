"""Shell completion of topic names, group ids and transactional ids.

Note: the user waits at a prompt. If the cluster does not answer quickly or refuses, completion
offers no names and prints no error.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.terminal import DEFAULT_BOOTSTRAP, client_settings

if TYPE_CHECKING:
    from headwater.client import Admin

_TIMEOUT_S: Final = 2.0


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    return _names(context, incomplete, lambda admin: admin.list_topics(timeout=_TIMEOUT_S))


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    return _names(
        context,
        incomplete,
        lambda admin: [each.group_id for each in admin.list_groups(timeout=_TIMEOUT_S)],
    )


def transactional_ids(context: typer.Context, incomplete: str) -> list[str]:
    return _names(
        context,
        incomplete,
        lambda admin: [
            each.transactional_id for each in admin.list_transactions(timeout=_TIMEOUT_S)
        ],
    )


def _names(
    context: typer.Context, incomplete: str, ask: "Callable[[Admin], Iterable[str]]"
) -> list[str]:
    from headwater.client import Admin
    from headwater.client.admin.admin_calls import AdminSettings
    from headwater.client.settings import supported_settings
    from headwater.common.exceptions import HeadwaterError

    bootstrap = _given(context, "bootstrap", "HEADWATER_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    config = _given(context, "command_config", "HEADWATER_COMMAND_CONFIG")
    try:
        settings = client_settings(bootstrap, None if config is None else Path(config))
        with Admin(supported_settings(AdminSettings, settings)) as admin:
            return [each for each in ask(admin) if each.startswith(incomplete)]
    except (HeadwaterError, OSError, typer.BadParameter):
        return []


def _given(context: typer.Context, name: str, variable: str) -> str | None:
    found = context.params.get(name) or os.environ.get(variable)
    return None if found is None else str(found)
