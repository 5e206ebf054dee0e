"""`headwater start`: parse the arguments and run a broker.

Exits with 0 after SIGTERM or Ctrl-C, and with 2 after a one-line error message if the broker
cannot start.

Note: this module must not import typer or rich. They would add a quarter to the startup time and
stay in the broker's memory, so this command uses argparse and `headwater.cli.entry` calls it
directly.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headwater.broker.metrics.process_metrics import process_age_s
from headwater.cli.broker.log_format import FORMATS, LEVELS, log_to_standard_error
from headwater.common.exceptions import (
    CannotListen,
    ControllerUnreachable,
    DirectoryInUse,
    DuplicateBrokerRegistration,
    HeadwaterError,
    InvalidSetting,
    StorageError,
    StoreUnreachable,
    WrongLogDirectory,
)
from headwater.common.settings.java_properties import parse_properties
from headwater.common.settings.quorum_settings import (
    BROKER,
    CONTROLLER,
    QUORUM_FILE,
    parse_quorum_settings,
    roles_of,
)
from headwater.common.settings.server_properties import (
    ServerProperties,
    combined_properties,
    controller_properties,
    kraft_broker_properties,
    layered,
    names_several_nodes,
    supported_properties,
)
from headwater.common.settings.setting_types import split_list
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import parse_address

if TYPE_CHECKING:
    from headwater.broker.node.broker_process import Serving

CANNOT_START = 2
INTERRUPTED = 130
_CORES_MAX = 256

# Defaults for a broker without a server.properties: reachable from this machine only, and not in
# Kafka's default directory under /tmp.
_WITHOUT_A_FILE = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "./data"}

# The settings that each flag sets, first the one that it writes, then its synonyms.
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
    DirectoryInUse: "; stop that broker, or choose another directory with --data",
    WrongLogDirectory: "; choose another directory with --data, or its node id with --node-id",
    ControllerUnreachable: "; see the controllers' logs",
    StoreUnreachable: "; start ZooKeeper, or choose another one with --zookeeper",
    DuplicateBrokerRegistration: "; stop that broker, or choose another id with --node-id",
    StorageError: "; choose another directory with --data, or repair this one",
}

_log = logging.getLogger(__name__)


RunBroker = Callable[[StaticConfig, Callable[["Serving"], None]], None]
"""Runs a broker until it is stopped, and calls back once it serves requests."""


def start(arguments: Sequence[str], run_broker: RunBroker) -> int:
    """Run the command and return its exit code."""
    options = parser().parse_args(arguments)
    log_to_standard_error(log_format=options.log_format, level=options.log_level)
    try:
        texts = texts_of(options)
        if options.cores is not None:
            return _start_on_cores(texts, options)
        _refuse_several_brokers(texts)
        if roles_of(texts) == (CONTROLLER,):
            _start_controller(texts, is_strict=options.strict)
            return 0
        if roles_of(texts) == (BROKER,):
            _start_kraft_broker(texts, is_strict=options.strict)
            return 0
        if sorted(roles_of(texts)) == [BROKER, CONTROLLER] and names_several_nodes(texts):
            _start_combined(texts, is_strict=options.strict)
            return 0
        properties = supported_properties(texts)
        static = StaticConfig.parse(properties.texts)
        _report(properties, is_strict=options.strict)
        run_broker(static, lambda serving: _announce(serving, static))
    except tuple(_HINTS) as error:
        return _print_error(error)
    except KeyboardInterrupt:
        # The broker has not installed its signal handlers yet.
        return INTERRUPTED
    return 0


def _start_on_cores(texts: Mapping[str, str], options: argparse.Namespace) -> int:
    """Run one broker per core, in processes of their own."""
    from headwater.cli.broker.cores import run_on_cores

    passed_on = ["--log-format", options.log_format, "--log-level", options.log_level]
    if options.strict:
        passed_on.append("--strict")
    return run_on_cores(texts, options.cores, options=passed_on, log_format=options.log_format)


def _refuse_several_brokers(texts: Mapping[str, str]) -> None:
    """Refuse a log directory that has the directories of several brokers."""
    directories = texts.get("log.dirs") or texts.get("log.dir") or ""
    for each in split_list(directories):
        if (Path(each) / QUORUM_FILE).exists():
            raise WrongLogDirectory(
                f"{each} has a cluster of several brokers; start it with --cores N, or with "
                "headwater cluster start --dir"
            )


def _start_controller(texts: Mapping[str, str], *, is_strict: bool) -> None:
    """Run a node with process.roles=controller."""
    # Imported only here: a broker needs none of the quorum's modules.
    from headwater.broker.controller_server.controller_process import run_controller
    from headwater.broker.controller_server.controller_server import ControllerConfig

    quorum = parse_quorum_settings(texts)
    properties = controller_properties(texts)
    static = StaticConfig.parse(properties.texts)
    config = ControllerConfig(static, quorum)
    _report(properties, is_strict=is_strict)
    run_controller(config, ready=lambda serving: _announce(serving, static))


def _start_kraft_broker(texts: Mapping[str, str], *, is_strict: bool) -> None:
    """Run a node with process.roles=broker."""
    from headwater.broker.broker_server.broker_server_process import run_broker_server

    quorum = parse_quorum_settings(texts)
    properties = kraft_broker_properties(texts)
    static = StaticConfig.parse(properties.texts)
    _report(properties, is_strict=is_strict)
    run_broker_server(static, quorum, ready=lambda serving: _announce(serving, static))


def _start_combined(texts: Mapping[str, str], *, is_strict: bool) -> None:
    """Run a node with both roles in a quorum of several nodes."""
    from headwater.broker.broker_server.combined_server import run_combined_server

    quorum = parse_quorum_settings(texts)
    properties, of_controller = combined_properties(texts)
    static = StaticConfig.parse(properties.texts)
    _report(properties, is_strict=is_strict)
    run_combined_server(
        static,
        StaticConfig.parse(of_controller.texts),
        quorum,
        ready=lambda serving: _announce(serving, static),
    )


def _report(properties: ServerProperties, *, is_strict: bool) -> None:
    """Warn about settings without effect; raise for unknown settings if strict."""
    if is_strict and properties.unknown:
        raise InvalidSetting(f"{'; '.join(properties.unknown.values())} (--strict)")
    for name, reason in properties.unknown.items():
        _log.warning("Setting ignored: name=%s reason=%s", name, reason)
    for name, reason in properties.without_effect.items():
        _log.warning("Setting has no effect: name=%s reason=%s", name, reason)


def texts_of(options: argparse.Namespace) -> dict[str, str]:
    """Merge the settings of the file, `-o` and the flags; later ones win."""
    file = {} if options.config is None else read_properties(options.config)
    single = _single_options(options.option)
    flags = _flags(options)
    for flag, names in _FLAGS.items():
        if names[0] in flags:
            _refuse_both(flag, names, single)
    if "listeners" in flags:
        # The file's advertised.listeners belong to the listeners that --listen replaces.
        file.pop("advertised.listeners", None)
    defaults = {} if options.config is not None else _WITHOUT_A_FILE
    return layered(defaults, file, single, flags)


def read_properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_bytes())
    except OSError as error:
        raise InvalidSetting(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidSetting(f"{path} is not a properties file: {error}") from error


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headwater start",
        description="Start a broker and serve until SIGTERM or Ctrl-C.",
        epilog="Settings have Kafka's names. Flags override -o, and -o overrides the file. "
        "Without a file the broker listens on 127.0.0.1:9092 and stores its data in ./data.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=30),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="Kafka server.properties file")
    add("--data", metavar="DIR", help="log directories, comma-separated (log.dirs)")
    add("--listen", metavar="HOST:PORT", help="the only address to listen on (listeners)")
    add("--node-id", metavar="N", help="node id of this broker (node.id)")
    add(
        "--cores",
        type=_cores,
        metavar="N",
        help="start N brokers as one KRaft cluster, on the address of --listen and the next ports",
    )
    add(
        "--zookeeper",
        metavar="HOST:PORT",
        help="join the cluster in this ZooKeeper (zookeeper.connect): HOST:PORT[,...][/chroot]",
    )
    add(
        "-o",
        dest="option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one setting; repeatable",
    )
    add(
        "--strict",
        action="store_true",
        help="fail to start on unknown settings instead of logging a warning",
    )
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="serve Prometheus metrics on this address (headwater.metrics.listener)",
    )
    add("--log-format", choices=FORMATS, default="text", help="format of the log on stderr")
    add("--log-level", choices=LEVELS, default="info", metavar="LEVEL", help=_level_help())
    return parser


def _level_help() -> str:
    return f"lowest level to log: {', '.join(LEVELS)} (default: info)"


def _cores(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _CORES_MAX:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {_CORES_MAX}, not {text}")
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with one line, as for other reasons not to start."""
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
        raise InvalidSetting("--data is empty; give a directory")
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
            raise InvalidSetting(f"{flag} and -o {name} set the same setting; give only one")


def _announce(serving: "Serving", static: StaticConfig) -> None:
    addresses = ", ".join(endpoint.address for endpoint in serving.endpoints)
    directories = static.settings.log_dirs or (static.settings.log_dir,)
    age_s = process_age_s()
    took = "" if age_s is None else f", {age_s:.2f} s"
    line = (
        f"headwater ready on {addresses} (node {static.node_id}, cluster {serving.cluster_id}, "
        f"data {', '.join(directories)}{took})"
    )
    # The reader of standard output may be gone; the broker keeps running.
    with suppress(BrokenPipeError):
        print(line, flush=True)


def _print_error(error: BaseException) -> int:
    hint = next(hint for kind, hint in _HINTS.items() if isinstance(error, kind))
    print(f"headwater: {error}{hint}", file=sys.stderr, flush=True)
    return CANNOT_START
