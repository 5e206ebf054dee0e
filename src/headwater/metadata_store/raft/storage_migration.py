"""Give the log directories of a ZooKeeper node what a KRaft node needs.

Data stays as it is. A controller's bootstrap checkpoint has the whole metadata of the cluster,
which the first active controller writes into the metadata log. Each file is replaced atomically
and written again by the next attempt, so an interrupted migration is just repeated.
"""

from pathlib import PurePath
from typing import Final

from headwater.common.exceptions import StorageError
from headwater.common.ports import Random
from headwater.metadata_store.raft.kafka_raft_log import DIRECTORY_NAME
from headwater.metadata_store.raft.storage_formatter import (
    FormatRequest,
    bootstrap_checkpoint,
    format_directory,
)
from headwater.storage.io.disk import Disk
from headwater.storage.log_manager import meta_properties

_QUORUM_STATE: Final = "quorum-state"


def check_migration(request: FormatRequest, *, disk: Disk) -> None:
    """Raise for a directory of another node or of a node that ran with KRaft."""
    for directory in request.directories:
        meta = meta_properties.load(disk, directory)
        if meta is not None:
            meta.check(node_id=request.node_id, cluster_id=request.cluster_id)
    state = request.metadata_directory / DIRECTORY_NAME / _QUORUM_STATE
    if disk.status(state) is not None:
        raise StorageError(
            f"{state} exists: node {request.node_id} was started with KRaft already, and its "
            "metadata log may be newer than ZooKeeper"
        )


def migrate_storage(
    request: FormatRequest, *, disk: Disk, random: Random, now_ms: int
) -> list[PurePath]:
    """Write the files of a KRaft node and return its directories.

    Call `check_migration` first.
    """
    bootstrap = bootstrap_checkpoint(request, now_ms)
    # The metadata directory first: only its bootstrap checkpoint counts.
    others = [each for each in request.directories if each != request.metadata_directory]
    directories = [request.metadata_directory, *others]
    for each in directories:
        format_directory(request, each, bootstrap, disk, random, now_ms)
    return directories
