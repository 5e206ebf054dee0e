"""Placeholders of values in help texts, such as `--bootstrap HOST:PORT,...`.

One table, so that a value has the same placeholder in all commands. An option that is not in it
shows its name in capitals, or N if it is a number. A command that gives an option another meaning
declares the placeholder with the option.
"""

from collections.abc import Iterable
from typing import Any, Final

OPTIONS: Final = {
    "--add-scram": "CREDENTIAL",
    "--alias": "NAME",
    "--allow-host": "HOST",
    "--allow-principal": "PRINCIPAL",
    "--avro-schema": "FILE",
    "--before": "OFFSET",
    "--bootstrap": "HOST:PORT,...",
    "--broker": "ID",
    "--brokers": "ID,...",
    "--by-duration": "DURATION",
    "--checkpoint": "DIR",
    "--client-id": "NAME",
    "--cluster-id": "ID",
    "--command-config": "FILE",
    "--config": "FILE",
    "--data": "DIR",
    "--delegation-token": "TOKEN",
    "--delete": "NAME",
    "--delete-config": "NAME",
    "--deny-host": "HOST",
    "--deny-principal": "PRINCIPAL",
    "--directory": "DIR",
    "--directory-id": "ID",
    "--every": "DURATION",
    "--exclude": "REGEX",
    "--feature": "NAME=LEVEL",
    "--file": "FILE",
    "--from": "TIME|OFFSETS",
    "--from-file": "FILE",
    "--from-time": "TIME",
    "--groups": "REGEX",
    "--header": "NAME=VALUE",
    "--headers-separator": "TEXT",
    "--host": "HOST",
    "--id": "ID",
    "--initial-controllers": "VOTER,...",
    "--interval": "SECONDS",
    "--ip": "ADDRESS",
    "--key": "COLUMN",
    "--key-separator": "TEXT",
    "--log-format": "FORMAT",
    "--loggers": "ID",
    "--longer-than": "DURATION",
    "--master": "URL",
    "--match": "TEXT",
    "--max-lag-seconds": "SECONDS",
    "--max-time": "DURATION",
    "--memory-limit": "SIZE",
    "--null-marker": "TEXT",
    "--offset": "OFFSET",
    "--older-than": "DURATION",
    "--option": "NAME=VALUE",
    "--output": "FILE",
    "--partition": "PARTITION",
    "--prefix": "TEXT",
    "--producer-id": "ID",
    "--publication": "NAME",
    "--refresh": "SECONDS",
    "--registry": "URL",
    "--release-version": "VERSION",
    "--runs": "DIR",
    "--schema": "COLUMNS",
    "--setting": "NAME=VALUE",
    "--sink": "NAME",
    "--size": "BYTES",
    "--slot": "NAME",
    "--sort": "COLUMN",
    "--source-config": "FILE",
    "--source-setting": "NAME=VALUE",
    "--start-offset": "OFFSET",
    "--table": "SCHEMA.TABLE",
    "--target-config": "FILE",
    "--target-setting": "NAME=VALUE",
    "--template": "NAME",
    "--timeout": "SECONDS",
    "--to-offset": "OFFSET",
    "--to-time": "TIME",
    "--topics": "REGEX",
    "--transactional-id": "ID",
    "--uri": "URI",
    "--url": "URL",
    "--user-principal": "PRINCIPAL",
    "--with": "PACKAGE",
    "--zookeeper": "HOST:PORT,...[/CHROOT]",
}
ARGUMENTS: Final = {
    "connector": "CONNECTOR",
    "file": "FILE",
    "files": "FILE",
    "group": "GROUP",
    "groups": "GROUP",
    "name": "NAME",
    "names": "NAME",
    "partition": "TOPIC:PARTITION",
    "partitions": "TOPIC:PARTITION",
    "query": "QUERY",
    "quotas": "NAME=VALUE",
    "settings": "NAME=VALUE",
    "subject": "SUBJECT",
    "topic": "TOPIC",
    "topics": "TOPIC",
    "transactional_ids": "ID",
    "user": "USER",
}


def name_values(params: Iterable[Any]) -> None:
    """Set the placeholders of options and arguments that do not name one themselves."""
    for each in params:
        if each.param_type_name == "argument":
            each.metavar = each.metavar or ARGUMENTS.get(each.name, each.name.upper())
            # Typer would show the placeholder as its name, and also its type.
            each.display_type_rich = _no_type
        elif each.metavar is None:
            each.metavar = "" if getattr(each, "is_flag", False) else _of_option(each)


def _of_option(option: Any) -> str:
    named = next((OPTIONS[name] for name in option.opts if name in OPTIONS), None)
    if named is not None:
        return named
    is_number = option.type_descriptor.annotation in (int, float)
    return "N" if is_number else str(max(option.opts, key=len)).strip("-").upper()


def _no_type(ctx: object) -> None:
    """Show no type beside an argument."""
