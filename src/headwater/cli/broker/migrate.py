"""`headwater cluster migrate-to-kraft`: move a stopped cluster to KRaft."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.terminal import AsJson, exit_on_error, show

if TYPE_CHECKING:
    from headwater.metadata.cluster_image import ClusterImage
    from headwater.metadata.metadata_record_serde import ApiMessageAndVersion
    from headwater.metadata_store.raft.storage_formatter import FormatRequest

_COLUMNS: Final = ("node", "role", "directory", "state")


def migrate_to_kraft(
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="ZooKeeper of the cluster (host:port/chroot).")
    ],
    config: Annotated[
        list[Path],
        typer.Option(
            "--config", "-c", help="New server.properties file of a node of this machine; repeat."
        ),
    ],
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            help="First voters, the same for all nodes, each as ID@HOST:PORT:DIRECTORY_ID. Not "
            "with controller.quorum.voters.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be migrated; write nothing.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(help="How long to wait for ZooKeeper, in seconds.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Move a cluster whose brokers are stopped from ZooKeeper to KRaft.

    Run it for all nodes, on each machine, before any of them is started. It reads ZooKeeper and
    never writes to it; an interrupted run is repeated.
    """
    with exit_on_error():
        from headwater.common.exceptions import InvalidSetting
        from headwater.metadata_store.raft.storage_migration import (
            check_migration,
            migrate_storage,
        )
        from headwater.metadata_store.zookeeper.migration_reader import (
            migrated_image,
            read_cluster,
        )
        from headwater.network.system_clock import SystemClock, SystemRandom
        from headwater.storage.io.os_disk import OsDisk

        found = read_cluster(zookeeper, timeout_s=timeout)
        if found.brokers and not dry_run:
            running = ", ".join(map(str, found.brokers))
            raise InvalidSetting(f"brokers are running: {running}; stop all brokers first")
        image = migrated_image(found)
        records, features = _records(image, found.contents.features)
        requests = [
            _request(each, initial_controllers, found.cluster_id, features, records)
            for each in config
        ]
        for request in requests:
            check_migration(request, disk=OsDisk())
        if not as_json:
            typer.echo(_summary(image))
        rows = []
        for request in requests:
            directories = list(request.directories)
            if not dry_run:
                directories = migrate_storage(
                    request,
                    disk=OsDisk(),
                    random=SystemRandom(),
                    now_ms=SystemClock().now_ms(),
                )
            role = "broker" if request.records is None else "controller"
            state = "to be migrated" if dry_run else "migrated"
            rows += [
                {"node": request.node_id, "role": role, "directory": str(each), "state": state}
                for each in directories
            ]
    show(rows, as_json=as_json, columns=_COLUMNS)
    if not as_json and not dry_run:
        typer.echo("Start the controllers, then the brokers, when all nodes are migrated.")


def _records(
    image: "ClusterImage", finalized: dict[str, int]
) -> "tuple[tuple[ApiMessageAndVersion, ...], dict[str, int]]":
    """The records of the metadata log, and the feature levels among them."""
    from dataclasses import replace

    from headwater.metadata.record_replay import AclIds
    from headwater.metadata.record_writer import RecordWriter
    from headwater.metadata_store.raft.metadata_version import feature_levels

    features = feature_levels(None, finalized)
    writer = RecordWriter(AclIds())
    return tuple(writer.image_records(replace(image, features=features))), features


def _request(
    config: Path,
    initial_controllers: str | None,
    cluster_id: str,
    features: dict[str, int],
    records: "tuple[ApiMessageAndVersion, ...]",
) -> "FormatRequest":
    from headwater.cli.broker.start import read_properties
    from headwater.cli.broker.storage import metadata_directory, node_settings
    from headwater.common.exceptions import InvalidSetting
    from headwater.common.settings.server_properties import names_several_nodes
    from headwater.metadata_store.raft.storage_formatter import FormatRequest, InitialController

    settings, quorum = node_settings(config)
    if len(quorum.process_roles) > 1 and not names_several_nodes(read_properties(config)):
        # `headwater start` would run it without a metadata log, and lose what is migrated.
        raise InvalidSetting(
            f"{config}: a node with both roles whose quorum settings name only one server is a "
            "standalone broker without a metadata log; name the server twice in "
            "controller.quorum.bootstrap.servers, or run controller and broker as two nodes"
        )
    is_controller = "controller" in quorum.process_roles
    controllers = None
    if initial_controllers is not None and is_controller:
        controllers = tuple(
            InitialController.parse(each) for each in initial_controllers.split(",")
        )
        if settings.node_id not in [each.node_id for each in controllers]:
            raise InvalidSetting(
                f"--initial-controllers does not have this node, which is {settings.node_id}"
            )
    if is_controller and (controllers is None) == (not quorum.controller_quorum_voters):
        raise InvalidSetting(
            f"{config}: give either --initial-controllers or controller.quorum.voters"
        )
    metadata = metadata_directory(settings, quorum)
    paths = [Path(each) for each in settings.log_dirs or (settings.log_dir,)]
    return FormatRequest(
        node_id=settings.node_id,
        cluster_id=cluster_id,
        directories=tuple(sorted({*paths, metadata})),
        metadata_directory=metadata,
        features=features,
        controller_listener=quorum.controller_listener_names[0].upper(),
        initial_controllers=controllers,
        records=records if is_controller else None,
    )


def _summary(image: "ClusterImage") -> str:
    partitions = sum(len(each.partitions) for each in image.topics.values())
    acls = sum(len(each.entries) for each in image.acls.values())
    return (
        f"Cluster {image.cluster_id}: {len(image.topics)} topics with {partitions} partitions, "
        f"{acls} ACLs, configs, quotas and users of {len(image.configs)} resources"
    )
