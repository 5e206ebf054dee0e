"""Users of SCRAM before there is a broker that could be asked to make them.

On a listener that asks for a login, somebody must be known before the first request; where brokers
log in at each other by SCRAM, even before the first broker starts. What a reader would get wrong:
a broker that is alone must stand still for it, since its facts are in a file that it holds. Those
of a cluster are in ZooKeeper, where running brokers hear of it too.
"""

from collections.abc import Sequence
from pathlib import Path

from headwater.broker.node import fresh_cluster_id, known_cluster_id
from headwater.cluster.decision import Decision
from headwater.cluster.features import of_new_cluster
from headwater.cluster.image import ClusterImage, Version
from headwater.cluster.local import FILE_NAME, LocalStore
from headwater.cluster.scram_users import alter_users
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError, StorageError, WrongLogDirectory
from headwater.model.ids import NodeId
from headwater.model.ports import Dice
from headwater.storage.directory_lock import DirectoryLock
from headwater.storage.executor import InlineExecutor
from headwater.storage.folder_survey import survey
from headwater.storage.os_disk import OsDisk
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
)

Results = Sequence[AlterUserScramCredentialsResult]


def alter_local_users(
    directory: Path, request: AlterUserScramCredentialsRequest, dice: Dice
) -> Results:
    """Change the users of a broker that is alone and stands still; it may never have run."""
    disk = OsDisk()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make {directory}: {error.strerror}") from error
    with DirectoryLock(directory):
        is_new = disk.status(directory / FILE_NAME) is None
        if is_new and survey(disk, [directory]):
            raise WrongLogDirectory(
                f"{directory} has logs that no broker here has taken over: start it once first"
            )
        known_id = known_cluster_id(disk, [directory]) or LocalStore.cluster_id_in(disk, directory)
        store = LocalStore.open(
            disk,
            InlineExecutor(),
            directory,
            cluster_id=known_id or fresh_cluster_id(dice),
            first=of_new_cluster(),
        )
        try:
            return _alter(store, request)
        finally:
            store.close()


def _alter(store: LocalStore, request: AlterUserScramCredentialsRequest) -> Results:
    elected: list[Version] = []
    images: list[ClusterImage] = []
    store.become_controller(NodeId(0), then=elected.append, otherwise=_raise)
    store.read(then=images.append, otherwise=_raise)
    decision: Decision[tuple[AlterUserScramCredentialsResult, ...]]
    decision = alter_users(images[0], request)
    if decision.facts:
        store.write(decision.facts, fence=elected[0], then=lambda _: None, otherwise=_raise)
    return decision.answer


def refused(results: Results) -> list[str]:
    """What went wrong, a line for each user."""
    return [
        f"{each.user}: {each.error_message or each.error_code.name}"
        for each in results
        if each.error_code is not ErrorCode.NONE
    ]


def _raise(error: HeadwaterError) -> None:
    raise error
