"""What all commands have in common, as far as a machine can see it."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from headwater.cli.main import app

CONFIG = "--command-config"
VARIABLE = "HEADWATER_COMMAND_CONFIG"


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each command with its options, by their long names."""
    inner = getattr(group, "commands", None)
    if inner is None:
        options = {name: each for each in group.params for name in each.opts}
        yield " ".join(words), options
        return
    for name, each in inner.items():
        yield from commands(each, (*words, name))


def all_commands() -> dict[str, dict[str, Any]]:
    return dict(commands(get_command(app)))


def test_a_command_that_speaks_to_brokers_or_registries_takes_the_file_that_lets_it_in() -> None:
    speaking = {
        name: options
        for name, options in all_commands().items()
        if options.keys() & {"--bootstrap", "--url", "--registry"}
    }
    assert len(speaking) > 30
    without = [name for name, options in speaking.items() if CONFIG not in options]
    assert without == []
    deaf = [name for name, options in speaking.items() if options[CONFIG].envvar != VARIABLE]
    assert deaf == []


def parameters(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for each in group.params:
        yield " ".join((*words, each.name)), each
    for name, each in getattr(group, "commands", {}).items():
        yield from parameters(each, (*words, name))


def test_every_value_has_a_placeholder_that_is_not_its_type() -> None:
    found = [
        (name, each.metavar)
        for name, each in parameters(get_command(app))
        if "completion" not in name
    ]
    assert len(found) > 300
    unnamed = [
        (name, metavar)
        for name, metavar in found
        if metavar is None or metavar != metavar.upper() or metavar in ("STR", "INTEGER", "PATH")
    ]
    assert unnamed == []


def test_a_command_that_speaks_to_two_clusters_takes_a_file_for_each() -> None:
    two = {
        name: options
        for name, options in all_commands().items()
        if {"source", "target"} <= options.keys()
    }
    assert list(two) == ["mirror"]
    assert {"--source-config", "--target-config"} <= two["mirror"].keys()
