"""`headwater start --cores N`: a KRaft cluster with one broker per core.

A broker is one event loop and so uses one core for requests. The brokers have consecutive node ids
and ports, a directory `broker-ID` each in every log directory, and one quorum: its voters are the
first three brokers, or the first one of two. A broker that exits is restarted.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headwater.broker.broker_server.local_cluster import (
    QUORUM_TIMEOUTS,
    LocalCluster,
    local_cluster,
)
from headwater.common.exceptions import InvalidSetting, StorageError
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.java_properties import format_properties
from headwater.common.settings.quorum_settings import QUORUM_FILE
from headwater.network.endpoint import Endpoint, parse_address, parse_endpoints
from headwater.network.free_ports import free_ports
from headwater.network.host_name import own_host_name
from headwater.process.private_files import write_private
from headwater.process.ready_process import headwater_command
from headwater.process.supervisor import ProcessSupervisor, SupervisedCommand
from headwater.storage.log_manager import meta_properties

CANNOT_START: Final = 2

_PROTOCOL_MAP: Final = "listener.security.protocol.map"
_METRICS: Final = "headwater.metrics.listener"
_OWN_QUORUM: Final = (
    "process.roles",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "metadata.log.dir",
    "zookeeper.connect",
)
_VOTERS_HOST: Final = "127.0.0.1"
_REPLICATED: Final = 3
"""Replicas of internal topics, if there are as many brokers."""

_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreBroker:
    """One of the brokers: what differs from the others."""

    node_id: int
    listeners: tuple[Endpoint, ...]
    texts: Mapping[str, str]
    directories: tuple[Path, ...]


def run_on_cores(
    texts: Mapping[str, str], cores: int, *, options: Sequence[str], log_format: str
) -> int:
    """Run the brokers until SIGTERM or Ctrl-C; return the exit code.

    `options` are passed to each broker.
    """
    brokers = core_brokers(texts, cores, free_ports=free_ports)
    home = brokers[0].directories[0].parent
    cluster = _prepare(brokers, home)
    children = [
        SupervisedCommand(
            name=_name(broker.node_id),
            command=headwater_command(
                "start", "--config", str(_properties_of(home, broker.node_id)), *options
            ),
        )
        for broker in brokers
    ]

    def ready() -> None:
        addresses = ", ".join(each.address for broker in brokers for each in broker.listeners)
        line = (
            f"headwater ready on {addresses} "
            f"({cores} brokers, cluster {cluster.cluster_id}, data {home})"
        )
        # The reader of standard output may be gone; the brokers keep running.
        with suppress(BrokenPipeError):
            print(line, flush=True)

    label = label_json if log_format == "json" else label_text
    supervised = ProcessSupervisor(children, label=label, output=sys.stderr.buffer).run(ready=ready)
    return 0 if asyncio.run(supervised) else CANNOT_START


def label_text(name: str, line: bytes) -> bytes:
    return f"[{name}] ".encode() + line


def label_json(name: str, line: bytes) -> bytes:
    """Add the name to a JSON object; make one of any other line."""
    if line.startswith(b'{"'):
        return f'{{"process": "{name}", '.encode() + line[1:]
    message = line.decode("utf-8", "replace")
    return json.dumps({"process": name, "message": message}).encode()


def core_brokers(
    texts: Mapping[str, str], cores: int, *, free_ports: Callable[[str, int], list[int]]
) -> list[CoreBroker]:
    """Derive the settings of each broker from those of the first one.

    Ports that the system may choose are chosen here, so that a restarted broker keeps its port.
    """
    _check(texts)
    first_id = _first_id(texts)
    listeners = _endpoints(texts, "listeners") or parse_endpoints(
        ",".join(BrokerSettings().listeners)
    )
    advertised = _endpoints(texts, "advertised.listeners")
    metrics = texts.get(_METRICS)
    metrics_address = [parse_address(metrics, name="METRICS")] if metrics else []
    step = port_step([each.port for each in (*listeners, *metrics_address)], cores)
    defaults = _defaults(cores)
    # A listener with port 0 gets any ports, the others get ports in a row.
    ports = {
        each.name: free_ports(each.host or _VOTERS_HOST, cores)
        if each.port == 0
        else [each.port + place * step for place in range(cores)]
        for each in listeners
    }
    brokers = []
    for place in range(cores):
        own = {**defaults, **texts, "node.id": str(first_id + place)}
        own.pop("broker.id", None)
        own_listeners = tuple(replace(each, port=ports[each.name][place]) for each in listeners)
        own["listeners"] = ",".join(map(str, own_listeners))
        if advertised:
            own["advertised.listeners"] = ",".join(map(str, _shifted(advertised, place * step)))
        if metrics_address:
            own[_METRICS] = _shifted(metrics_address, place * step)[0].address
        directories = tuple(path / _name(first_id + place) for path in _log_directories(texts))
        own.pop("log.dir", None)
        own["log.dirs"] = ",".join(map(str, directories))
        brokers.append(
            CoreBroker(
                node_id=first_id + place,
                listeners=own_listeners,
                texts=own,
                directories=directories,
            )
        )
    return brokers


def port_step(ports: Sequence[int], count: int) -> int:
    """Return the smallest distance of ports with which none is used twice."""
    fixed = [port for port in ports if port]
    for step in range(1, _LARGEST_PORT):
        used = [port + place * step for port in fixed for place in range(count)]
        if max(used, default=0) > _LARGEST_PORT:
            break
        if len(set(used)) == len(used):
            return step
    raise InvalidSetting(f"there are no ports for {count} brokers with the listeners' ports")


def _check(texts: Mapping[str, str]) -> None:
    for name in _OWN_QUORUM:
        if name in texts:
            raise InvalidSetting(
                f"--cores starts a KRaft quorum of its own; leave out {name}, or start the "
                "brokers one by one"
            )
    if texts.get("authorizer.class.name"):
        # The controllers' listener is PLAINTEXT, and its users would have no name.
        raise InvalidSetting(
            "--cores does not support authorizer.class.name; start the brokers one by one"
        )


def _defaults(cores: int) -> dict[str, str]:
    replicas = min(_REPLICATED, cores)
    return {
        "log.dirs": BrokerSettings().log_dir,
        # Brokers on one machine fail together, so replicas should go to other machines.
        "broker.rack": own_host_name(),
        # These topics cannot be created with more replicas than brokers.
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
    }


def _prepare(brokers: Sequence[CoreBroker], home: Path) -> LocalCluster:
    """Write the properties files and format directories that are new."""
    _make_directory(home)
    _check_directory(home, brokers)
    cluster = local_cluster(
        home, host=_VOTERS_HOST, first_id=brokers[0].node_id, nodes=len(brokers)
    )
    for broker in brokers:
        quorum = cluster.settings(broker.node_id, broker.texts["listeners"])
        given = {name: broker.texts[name] for name in QUORUM_TIMEOUTS if name in broker.texts}
        texts = {**broker.texts, **quorum, **given}
        if _PROTOCOL_MAP in texts:
            texts[_PROTOCOL_MAP] += f",{quorum['controller.listener.names']}:PLAINTEXT"
        path = _properties_of(home, broker.node_id)
        write_private(path, format_properties(texts).decode("latin-1"))
        cluster.format(broker.node_id, *broker.directories)
    return cluster


def _make_directory(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create log directory {home}: {error.strerror}") from error


def _check_directory(home: Path, brokers: Sequence[CoreBroker]) -> None:
    """Refuse data of another kind of node, or of more brokers."""
    if (home / meta_properties.FILE_NAME).exists():
        raise InvalidSetting(
            f"{home} has the data of a single broker; start it without --cores, or choose another "
            "directory with --data"
        )
    ids = [broker.node_id for broker in brokers]
    found = sorted(
        int(number)
        for path in home.glob(_name("*"))
        if path.is_dir() and (number := path.name.removeprefix(_name(""))).isdecimal()
    )
    left_out = [number for number in found if number not in ids]
    if left_out:
        raise InvalidSetting(
            f"{home} has the data of brokers {', '.join(map(str, found))}, and --cores "
            f"{len(brokers)} would start only {', '.join(map(str, ids))}; start all of them, or "
            "move the partitions of the others away and remove their directories first"
        )
    if found and not (home / QUORUM_FILE).exists():
        raise InvalidSetting(
            f"{home} has directories of brokers but no {QUORUM_FILE}, so it is not from --cores; "
            "choose another directory with --data"
        )


def _first_id(texts: Mapping[str, str]) -> int:
    text = texts.get("node.id", texts.get("broker.id", "0"))
    if not text.strip().isdecimal():
        raise InvalidSetting(f"node.id is {text}, not a number from 0")
    return int(text)


def _log_directories(texts: Mapping[str, str]) -> list[Path]:
    text = texts.get("log.dirs") or texts.get("log.dir") or BrokerSettings().log_dir
    return [Path(each.strip()).absolute() for each in text.split(",") if each.strip()]


def _endpoints(texts: Mapping[str, str], name: str) -> list[Endpoint]:
    return parse_endpoints(texts[name]) if texts.get(name, "").strip() else []


def _shifted(endpoints: Sequence[Endpoint], by: int) -> tuple[Endpoint, ...]:
    return tuple(replace(each, port=each.port + by if each.port else 0) for each in endpoints)


def _name(node_id: int | str) -> str:
    return f"broker-{node_id}"


def _properties_of(home: Path, node_id: int) -> Path:
    return home / f"{_name(node_id)}.properties"
