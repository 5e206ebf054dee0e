"""`headwater start`: arguments in, a running broker out.

What a reader would get wrong: nothing here may import typer or rich. They would be a quarter of
the time until a broker is ready and stay in its memory, so the arguments of this one command are
read with argparse, and `headwater.cli.entry` comes here without a detour.

Exits with 0 after SIGTERM or Ctrl-C, and with 2, after one line that says what to do, when the
broker cannot start.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from headwater.broker.metrics.process_metrics import process_age_s
from headwater.broker.node.broker_process import Serving
from headwater.cli.broker.log_format import FORMATS, LEVELS, log_to_standard_error
from headwater.common.exceptions import (
    BrokerIdTaken,
    CannotListen,
    DirectoryInUse,
    HeadwaterError,
    InvalidSetting,
    StorageError,
    StoreUnreachable,
    WrongLogDirectory,
)
from headwater.common.settings.java_properties import parse_properties
from headwater.common.settings.server_properties import (
    ServerProperties,
    layered,
    supported_properties,
)
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import parse_address

CANNOT_START = 2
INTERRUPTED = 130

# For whoever only wants to try it: no file that Kafka's defaults could be expected of, and so
# nothing that is lost with /tmp, and nothing that other machines can reach.
_WITHOUT_A_FILE = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "./data"}

# What each flag sets, and the names that say the same.
_FLAGS = {
    "--listen": ("listeners",),
    "--data": ("log.dirs", "log.dir"),
    "--node-id": ("node.id", "broker.id"),
    "--metrics": ("headwater.metrics.listener",),
    "--zookeeper": ("zookeeper.connect",),
}

_HINTS: dict[type[HeadwaterError], str] = {
    InvalidSetting: "",
    CannotListen: "; choose another address with --listen",
    DirectoryInUse: "; stop that one, or choose another directory with --data",
    WrongLogDirectory: "; choose another directory with --data, or its node with --node-id",
    StoreUnreachable: "; start it, or choose another with --zookeeper",
    BrokerIdTaken: "; stop that one, or choose another id with --node-id",
    StorageError: "; choose another directory with --data, or repair this one",
}

_log = logging.getLogger(__name__)


RunBroker = Callable[[StaticConfig, Callable[[Serving], None]], None]
"""Runs a broker until it is told to stop, and calls back when it serves."""


def start(arguments: Sequence[str], run_broker: RunBroker) -> int:
    """The whole command; the answer is the exit code."""
    options = parser().parse_args(arguments)
    log_to_standard_error(log_format=options.log_format, level=options.log_level)
    try:
        properties = supported_properties(texts_of(options))
        static = StaticConfig.parse(properties.texts)
        _report(properties, is_strict=options.strict)
        run_broker(static, lambda serving: _announce(serving, static))
    except tuple(_HINTS) as error:
        return _complain(error)
    except KeyboardInterrupt:
        # Before the broker has begun to listen to it.
        return INTERRUPTED
    return 0


def _report(properties: ServerProperties, *, is_strict: bool) -> None:
    """Warn of settings that change nothing; `InvalidSetting` for unknown ones with --strict."""
    if is_strict and properties.unknown:
        raise InvalidSetting(f"{'; '.join(properties.unknown.values())} (--strict)")
    for name, reason in properties.unknown.items():
        _log.warning("Setting ignored: name=%s reason=%s", name, reason)
    for name, reason in properties.without_effect.items():
        _log.warning("Setting has no effect: name=%s reason=%s", name, reason)


def texts_of(options: argparse.Namespace) -> dict[str, str]:
    """Everything that was asked for: the file, then `-o`, then the flags, of which the last win."""
    file = {} if options.config is None else read_properties(options.config)
    single = _single_options(options.option)
    flags = _flags(options)
    for flag, names in _FLAGS.items():
        if names[0] in flags:
            _refuse_both(flag, names, single)
    if "listeners" in flags:
        # What the file says to clients is about the address that it had.
        file.pop("advertised.listeners", None)
    defaults = {} if options.config is not None else _WITHOUT_A_FILE
    return layered(defaults, file, single, flags)


def read_properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_bytes())
    except OSError as error:
        raise InvalidSetting(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidSetting(f"{path} is no properties file: {error}") from error


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headwater start",
        description="Start a broker, and serve until SIGTERM or Ctrl-C.",
        epilog="Settings have Kafka's own names. A flag wins over -o, and -o over the file. "
        "Without a file the broker listens on 127.0.0.1:9092 and keeps its data in ./data.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=30),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="a server.properties, as Kafka has it")
    add("--data", metavar="DIR", help="where the logs lie (log.dirs)")
    add("--listen", metavar="HOST:PORT", help="where to listen, and nowhere else (listeners)")
    add("--node-id", metavar="N", help="the id of this broker (node.id)")
    add(
        "--zookeeper",
        metavar="HOST:PORT",
        help="join the cluster that is there (zookeeper.connect): HOST:PORT[,...][/chroot]",
    )
    add(
        "-o",
        dest="option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any one setting; may be given several times",
    )
    add(
        "--strict",
        action="store_true",
        help="refuse to start with unknown settings, which are only warned of otherwise",
    )
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="serve Prometheus metrics here (headwater.metrics.listener)",
    )
    add("--log-format", choices=FORMATS, default="text", help="how the log on stderr looks")
    add("--log-level", choices=LEVELS, default="info", metavar="LEVEL", help=_level_help())
    return parser


def _level_help() -> str:
    return f"the least that is logged: {', '.join(LEVELS)}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other reason not to start."""
        self.exit(CANNOT_START, f"headwater: {message}; see headwater start --help\n")


def _single_options(options: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for option in options:
        name, has_value, text = option.partition("=")
        name = name.strip()
        if not has_value or not name:
            raise InvalidSetting(f"-o {option}: must be KEY=VALUE")
        if name in texts:
            raise InvalidSetting(f"-o {name} is given twice")
        texts[name] = text
    return texts


def _flags(options: argparse.Namespace) -> dict[str, str]:
    if options.data is not None and not options.data.strip(" ,"):
        raise InvalidSetting("--data names no directory")
    flags: dict[str, str | None] = {
        "listeners": None if options.listen is None else _listener(options.listen),
        "log.dirs": options.data,
        "node.id": options.node_id,
        "headwater.metrics.listener": options.metrics,
        "zookeeper.connect": options.zookeeper,
    }
    return {name: text for name, text in flags.items() if text is not None}


def _listener(address: str) -> str:
    try:
        return str(parse_address(address, name="PLAINTEXT"))
    except InvalidSetting as error:
        raise InvalidSetting(f"--listen {address}: {error}") from error


def _refuse_both(flag: str, names: Sequence[str], single: Mapping[str, str]) -> None:
    for name in names:
        if name in single:
            raise InvalidSetting(f"{flag} and -o {name} say the same; leave one of them out")


def _announce(serving: Serving, static: StaticConfig) -> None:
    addresses = ", ".join(endpoint.address for endpoint in serving.endpoints)
    directories = static.settings.log_dirs or (static.settings.log_dir,)
    age_s = process_age_s()
    took = "" if age_s is None else f", {age_s:.2f} s"
    line = (
        f"headwater ready on {addresses} (node {static.node_id}, cluster {serving.cluster_id}, "
        f"data {', '.join(directories)}{took})"
    )
    # Nobody has to listen; the broker serves all the same.
    with suppress(BrokenPipeError):
        print(line, flush=True)


def _complain(error: BaseException) -> int:
    hint = next(hint for kind, hint in _HINTS.items() if isinstance(error, kind))
    print(f"headwater: {error}{hint}", file=sys.stderr, flush=True)
    return CANNOT_START
