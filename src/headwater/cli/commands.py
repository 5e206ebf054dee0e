"""Commands and groups that load only what one invocation needs.

A group knows the names and summaries of its commands, so that listing them for `--help` or
completion imports none of their modules. Since typer 0.29, typer converts every value with
pydantic, whose import costs as much CPU as the rest of a short command; plain values are converted
here instead, and everything else, including every error, is left to typer.
"""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from headwater.cli.placeholders import name_values

_NOT_PLAIN: Final = object()
# What pydantic reports about a value, and how it reads on a command line.
_MESSAGES: Final = (
    (re.compile(r"Input should be a valid integer.*"), "{value} is not a whole number"),
    (re.compile(r"Input should be a valid number.*"), "{value} is not a number"),
    (re.compile(r"Input should be greater than or equal to (.*)"), "{value} is less than {0}"),
    (re.compile(r"Input should be less than or equal to (.*)"), "{value} is more than {0}"),
    (re.compile(r"Value error, (.*)"), "{0}"),
)


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is defined, as module:attribute, and its help in one sentence."""

    target: str
    summary: str
    panel: str


class Command(TyperCommand):
    """A command whose help has placeholders and whose plain values convert fast."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.help = _unwrapped(self.help)
        name_values(self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_of, arguments)]

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        return _prepared(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        from headwater.cli.terminal import print_errors_as_json

        print_errors_as_json(bool(ctx.params.get("as_json")))
        return super().invoke(ctx)


class RawCommand(Command):
    """A command that parses its arguments itself; its options are declared for --help."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if {"-h", "--help"} & set(args):
            return super().parse_args(ctx, ["--help"])
        ctx.args = list(args)
        return ctx.args


class LazyGroup(TyperGroup):
    """A group whose commands in `lazy` are imported when they are invoked."""

    lazy: Mapping[str, LazyCommand] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.help = _unwrapped(self.help)
        name_values(self.params)
        if self.lazy:
            self.commands = _LazyCommands(self.lazy, self.commands)

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        return _prepared(super().get_params(ctx))

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with _summaries(self.commands):
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with _summaries(self.commands):
            return super().shell_complete(ctx, incomplete)


class _LazyCommands(MutableMapping[str, Any]):
    """The commands of a group by name; looking one up imports its module."""

    def __init__(self, lazy: Mapping[str, LazyCommand], loaded: Mapping[str, Any]) -> None:
        self._lazy = lazy
        self._loaded = dict(loaded)
        self.only_summaries = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            lazy = self._lazy[name]
            if self.only_summaries:
                return _summary(name, lazy)
            self._loaded[name] = load(name, lazy)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are not removed")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._lazy, *self._loaded]))

    def __len__(self) -> int:
        return len({*self._lazy, *self._loaded})


class _summaries:  # noqa: N801
    """A context in which a lazy group gives summaries instead of importing commands."""

    def __init__(self, commands: object) -> None:
        self._commands = commands if isinstance(commands, _LazyCommands) else None

    def __enter__(self) -> None:
        if self._commands is not None:
            self._commands.only_summaries = True

    def __exit__(self, *_: object) -> None:
        if self._commands is not None:
            self._commands.only_summaries = False


def load(name: str, lazy: LazyCommand) -> Any:
    """Import a command, which is a typer app or a function, and build it."""
    module, _, attribute = lazy.target.partition(":")
    found = getattr(import_module(module), attribute)
    holder = typer.Typer(add_completion=False)
    holder.callback()(_nothing)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    _use_classes(holder)
    command = typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]
    command.rich_help_panel = lazy.panel
    return command


def _nothing() -> None:
    """Make the app that holds one command a group."""


def _use_classes(app: typer.Typer) -> None:
    for command in app.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = Command
    for group in app.registered_groups:
        group.cls = LazyGroup
        if group.typer_instance is not None:
            _use_classes(group.typer_instance)


def _summary(name: str, lazy: LazyCommand) -> TyperCommand:
    return TyperCommand(name, help=lazy.summary, rich_help_panel=lazy.panel)


def _unwrapped(text: str | None) -> str | None:
    """Join the lines of each paragraph; the terminal wraps them."""
    if text is None:
        return None
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(each.split("\n")) for each in paragraphs)


def _usage_of(argument: Any) -> str:
    shown = f"{argument.metavar}..." if argument.nargs == -1 else str(argument.metavar)
    return shown if argument.required else f"[{shown}]"


def _prepared(params: list[Any]) -> list[Any]:
    # Among them are --help and --version, which are no parameters of the command itself.
    name_values(params)
    for each in params:
        if getattr(each, "_runtime_param", each) is None:
            each._runtime_param = _PlainValues(each)
    return params


def _in_plain_words(message: str, value: Any) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    for pattern, text in _MESSAGES:
        found = pattern.fullmatch(message)
        if found is not None:
            return text.format(*found.groups(), value=shown)
    return message


class _PlainValues:
    """Convert a parameter's plain values; leave all others to typer's own conversion."""

    def __init__(self, param: Any) -> None:
        self._type = param.type_descriptor.annotation
        self._info = param.type_descriptor.parameter_info

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        found = _NOT_PLAIN if self._info.parser else self._plain(value, param)
        if found is not _NOT_PLAIN:
            return found
        param._runtime_param = None
        try:
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            error.message = _in_plain_words(error.message, value)
            raise
        finally:
            param._runtime_param = self

    def _plain(self, value: Any, param: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if is_many:
            is_texts = self._type == list[str] and isinstance(value, list | tuple)
            return list(map(str, value)) if is_texts else _NOT_PLAIN
        if self._type is str or self._type is bool:
            return value if type(value) is self._type else _NOT_PLAIN
        if self._type is Path and isinstance(value, str | Path):
            return self._path(Path(value))
        if self._type is int or self._type is float:
            return self._number(value)
        return _NOT_PLAIN

    def _path(self, path: Path) -> Any:
        info = self._info
        if info.resolve_path or info.allow_dash or info.writable or info.path_type is not None:
            return _NOT_PLAIN
        if not path.exists():
            return _NOT_PLAIN if info.exists else path
        is_right_kind = info.dir_okay if path.is_dir() else info.file_okay
        return path if is_right_kind and os.access(path, os.R_OK) else _NOT_PLAIN

    def _number(self, value: Any) -> Any:
        low, high = self._info.min, self._info.max
        if type(value) is not self._type and not (isinstance(value, str) and value.isdecimal()):
            return _NOT_PLAIN
        found = self._type(value)
        if (low is not None and found < low) or (high is not None and found > high):
            return _NOT_PLAIN
        return found
