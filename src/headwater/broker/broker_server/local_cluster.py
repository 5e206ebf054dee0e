"""A KRaft cluster on one machine.

The first three nodes have both roles, the others are brokers. Of one or two nodes the first one has
both roles: a quorum of two would stop with either of them.

`quorum.json` in the cluster's directory keeps what all starts have in common: the cluster id, and
address and directory id of each voter. Directories are formatted on the first start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import TopicId
from headwater.common.settings.quorum_settings import QUORUM_FILE
from headwater.metadata_store.raft.metadata_version import feature_levels
from headwater.metadata_store.raft.storage_formatter import (
    FormatRequest,
    InitialController,
    format_storage,
    random_uuid,
)
from headwater.network.free_ports import free_ports
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.storage.io.os_disk import OsDisk

VOTERS: Final = 3
# Kafka's default of 1000 ms would be most of the time that a start takes.
QUORUM_TIMEOUTS: Final = {"controller.quorum.election.timeout.ms": "300"}

_LISTENER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The voters of a cluster on this machine."""

    cluster_id: str
    voters: tuple[InitialController, ...]

    def settings(self, node_id: int, listener: str) -> dict[str, str]:
        """Return the settings of a node whose broker listens on `listener`."""
        own = [each for each in self.voters if each.node_id == node_id]
        servers = [f"{each.host}:{each.port}" for each in self.voters]
        if len(servers) == 1:
            # Twice, because a node that names one controller only starts as a standalone broker.
            servers *= 2
        listeners = [listener, *(f"{_LISTENER}://{each.host}:{each.port}" for each in own)]
        return {
            "process.roles": "broker,controller" if own else "broker",
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": _LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(servers),
            **QUORUM_TIMEOUTS,
        }

    def format(self, node_id: int, *directories: Path) -> None:
        """Format the log directories of a node, unless they are formatted."""
        for each in directories:
            each.mkdir(parents=True, exist_ok=True)
        is_voter = any(each.node_id == node_id for each in self.voters)
        format_storage(
            FormatRequest(
                node_id=node_id,
                cluster_id=self.cluster_id,
                directories=directories,
                metadata_directory=directories[0],
                features=feature_levels(None, {}),
                controller_listener=_LISTENER,
                initial_controllers=self.voters if is_voter else None,
                ignores_formatted=True,
            ),
            disk=OsDisk(),
            random=SystemRandom(),
            now_ms=SystemClock().now_ms(),
        )


def local_cluster(directory: Path, *, host: str, first_id: int, nodes: int) -> LocalCluster:
    """Return the cluster of a directory, or a new one; its first nodes are voters."""
    path = directory / QUORUM_FILE
    if path.exists():
        return _checked(_read(path), directory, first_id, nodes)
    voters = VOTERS if nodes >= VOTERS else 1
    random = SystemRandom()
    cluster = LocalCluster(
        str(random_uuid(random)),
        tuple(
            InitialController(
                node_id=first_id + number, host=host, port=port, directory_id=random_uuid(random)
            )
            for number, port in enumerate(free_ports(host, voters))
        ),
    )
    _write(path, cluster)
    return cluster


def _checked(cluster: LocalCluster, directory: Path, first_id: int, nodes: int) -> LocalCluster:
    ids = [voter.node_id for voter in cluster.voters]
    if not all(first_id <= each < first_id + nodes for each in ids):
        raise InvalidSetting(
            f"the controllers of the cluster in {directory} are {', '.join(map(str, ids))}, and "
            f"the brokers to start are {first_id} to {first_id + nodes - 1}"
        )
    return cluster


def _read(path: Path) -> LocalCluster:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return LocalCluster(
            str(content["cluster_id"]),
            tuple(
                InitialController(
                    node_id=int(each["node_id"]),
                    host=str(each["host"]),
                    port=int(each["port"]),
                    directory_id=TopicId.parse(each["directory_id"]),
                )
                for each in content["voters"]
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidSetting(f"{path} is damaged: {error}") from error


def _write(path: Path, cluster: LocalCluster) -> None:
    content = {
        "cluster_id": cluster.cluster_id,
        "voters": [
            {
                "node_id": each.node_id,
                "host": each.host,
                "port": each.port,
                "directory_id": str(each.directory_id),
            }
            for each in cluster.voters
        ],
    }
    written = path.with_suffix(".new")
    written.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    written.rename(path)
