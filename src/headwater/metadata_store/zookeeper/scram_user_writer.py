"""Write SCRAM users directly to ZooKeeper, for use by a command-line tool.

Like Kafka's `kafka-configs --zookeeper` (3.9), for the users that brokers need among themselves.

Note: the controller is not involved, so a znode is only replaced in the version that was read, and
brokers learn of it by a notification, as for any config change.
"""

import importlib
import logging
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting, StoreUnreachable
from headwater.metadata.changes import ConfigsReplaced, apply
from headwater.metadata.cluster_image import FIRST_VERSION, ClusterImage
from headwater.metadata.config_entities import user_resource
from headwater.metadata.scram_credentials import alter_users
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
)

_TRIES: Final = 5


def alter_users_in_zookeeper(
    hosts: str, request: AlterUserScramCredentialsRequest, *, timeout_s: float
) -> tuple[AlterUserScramCredentialsResult, ...]:
    """Alter users. Blocks; raises `StoreUnreachable` after the timeout."""
    try:
        kazoo = importlib.import_module("kazoo.client")
        exceptions = importlib.import_module("kazoo.exceptions")
        timeouts = importlib.import_module("kazoo.handlers.threading")
    except ModuleNotFoundError as error:
        raise InvalidSetting("kazoo is not installed: pip install 'headwater[cluster]'") from error
    quiet = logging.getLogger("headwater.kazoo")
    quiet.setLevel(logging.ERROR)
    # kazoo's own chroot support requires that the path exists.
    address, _, folder = hosts.partition("/")
    root = f"/{folder.strip('/')}" if folder.strip("/") else ""
    client = kazoo.KazooClient(hosts=address, timeout=timeout_s, logger=quiet)
    try:
        client.start(timeout=timeout_s)
        for _ in range(_TRIES):
            try:
                return _alter(client, exceptions, root, request)
            except (exceptions.BadVersionError, exceptions.NodeExistsError):
                # Another process changed the same user meanwhile.
                continue
        raise StoreUnreachable(
            f"other processes keep changing the same users; gave up after {_TRIES} attempts"
        )
    except (timeouts.KazooTimeoutError, exceptions.KazooException) as error:
        raise StoreUnreachable(f"ZooKeeper at {hosts}: {error!r}") from error
    finally:
        client.stop()
        client.close()


def _alter(
    client: Any, exceptions: Any, root: str, request: AlterUserScramCredentialsRequest
) -> tuple[AlterUserScramCredentialsResult, ...]:
    versions: dict[str, int] = {}
    names = [each.name for each in request.upsertions]
    names += [each.name for each in request.deletions]
    image = ClusterImage(cluster_id="")
    for name in dict.fromkeys(filter(None, names)):
        resource = user_resource(name)
        path = root + znode_paths.config(resource)
        try:
            data, stat = client.get(path)
        except exceptions.NoNodeError:
            continue
        versions[path] = stat.version
        values = znode_data.read_configs(data)
        image = apply(image, [ConfigsReplaced(resource, values)], FIRST_VERSION)
    decision = alter_users(image, request)
    for folder in ("/config/users", znode_paths.CONFIG_CHANGES):
        client.ensure_path(root + folder)
    for change in decision.changes:
        assert isinstance(change, ConfigsReplaced)
        path, data = root + znode_paths.config(change.resource), znode_data.configs(change.values)
        if path in versions:
            client.set(path, data, version=versions[path])
        else:
            client.create(path, data)
        entity = znode_paths.config_entity(change.resource)
        note = znode_data.config_change(entity)
        client.create(root + znode_paths.CONFIG_CHANGE_PREFIX, note, sequence=True)
    return decision.answer
