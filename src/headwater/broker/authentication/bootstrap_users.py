"""Create SCRAM users in the metadata store, without a running broker.

On a SASL listener a user must exist before the first request; if brokers authenticate to each other
with SCRAM, even before the first broker starts.

Note: a standalone broker must be stopped for this, since it locks its metadata file. In a cluster
the users are in ZooKeeper, where running brokers notice the change.
"""

from collections.abc import Sequence
from pathlib import Path

from headwater.broker.node.node import known_cluster_id, new_cluster_id
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, StorageError, WrongLogDirectory
from headwater.common.ids import NodeId
from headwater.common.ports import Random
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.features import of_new_cluster
from headwater.metadata.scram_credentials import alter_users
from headwater.metadata_store.standalone.standalone_store import FILE_NAME, StandaloneStore
from headwater.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
)
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.log_manager.directory_lock import DirectoryLock
from headwater.storage.log_manager.log_directory_scan import scan_log_directories

Results = Sequence[AlterUserScramCredentialsResult]


def alter_local_users(
    directory: Path, request: AlterUserScramCredentialsRequest, rng: Random
) -> Results:
    """Alter the users of a stopped standalone broker, which may never have run."""
    disk = OsDisk()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {directory}: {error.strerror}") from error
    with DirectoryLock(directory):
        is_new = disk.status(directory / FILE_NAME) is None
        if is_new and scan_log_directories(disk, [directory]):
            raise WrongLogDirectory(
                f"{directory} has logs but no metadata: start the broker once before adding users"
            )
        known_id = known_cluster_id(disk, [directory]) or StandaloneStore.cluster_id_in(
            disk, directory
        )
        store = StandaloneStore.open(
            disk,
            InlineExecutor(),
            directory,
            cluster_id=known_id or new_cluster_id(rng),
            first=of_new_cluster(),
        )
        try:
            return _alter(store, request)
        finally:
            store.close()


def _alter(store: StandaloneStore, request: AlterUserScramCredentialsRequest) -> Results:
    elected: list[Version] = []
    images: list[ClusterImage] = []
    store.become_controller(NodeId(0), then=elected.append, on_error=_raise)
    store.read(then=images.append, on_error=_raise)
    decision: ControllerResult[tuple[AlterUserScramCredentialsResult, ...]]
    decision = alter_users(images[0], request)
    if decision.changes:
        store.write(decision.changes, fence=elected[0], then=lambda _: None, on_error=_raise)
    return decision.answer


def error_lines(results: Results) -> list[str]:
    """Return an error line for each user that was not altered."""
    return [
        f"{each.user}: {each.error_message or each.error_code.name}"
        for each in results
        if each.error_code is not ErrorCode.NONE
    ]


def _raise(error: HeadwaterError) -> None:
    raise error
