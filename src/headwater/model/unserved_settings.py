"""Broker settings that Kafka knows and Headwater has nothing to do with, and why not.

A `server.properties` that served Kafka should serve here too, so these are left aside with a word
of warning. What a reader would get wrong: a name belongs here only if leaving it aside does no
harm. Who may do what, and who may listen, is never left aside: such names are refused by
`broker_properties`. Names are whole where a typing error could look like them; a family stands
here by its first words only where Headwater has no name that begins so.
"""

_ALONE = "this broker is alone and keeps its metadata itself"
_REPLICAS = "there are no replicas on other brokers yet"
_GROUPS = "this kind of group is not served yet"
_TIERED = "records are kept on local disks only"
_JVM = "it is about the Java machine"
_OLD = "Kafka 4 no longer knows it either"
_FIXED = "Headwater chooses this itself"

_FAMILIES = {
    "controller.listener.names": _ALONE,
    "controller.performance.": _ALONE,
    "controller.quorum.": _ALONE,
    "metadata.": _ALONE,
    "process.roles": _ALONE,
    "remote.": _TIERED,
    "log.local.retention.": _TIERED,
    "replication.quota.": _FIXED,
    "alter.log.dirs.replication.quota.": _FIXED,
    "group.share.": _GROUPS,
    "group.streams.": _GROUPS,
    "share.coordinator.": _GROUPS,
    "kafka.metrics.": _JVM,
    "metric.reporters": _JVM,
    "metrics.": _JVM,
}

_NAMES = {
    "auto.include.jmx.reporter": _JVM,
    "broker.heartbeat.interval.ms": _ALONE,
    "broker.id.generation.enable": _ALONE,
    "broker.session.timeout.ms": _ALONE,
    "control.plane.listener.name": _ALONE,
    "delete.records.purgatory.purge.interval.requests": _FIXED,
    "early.start.listeners": _ALONE,
    "fetch.purgatory.purge.interval.requests": _FIXED,
    "initial.broker.registration.timeout.ms": _ALONE,
    "inter.broker.protocol.version": _ALONE,
    "log.dir.failure.timeout.ms": _ALONE,
    "log.message.downconversion.enable": _OLD,
    "log.message.format.version": _OLD,
    "log.message.timestamp.difference.max.ms": _OLD,
    "num.replica.alter.log.dirs.threads": _FIXED,
    "offsets.commit.required.acks": _OLD,
    "offsets.load.buffer.size": _FIXED,
    "offsets.topic.compression.codec": _FIXED,
    "producer.purgatory.purge.interval.requests": _FIXED,
    "replica.socket.receive.buffer.bytes": _REPLICAS,
    "reserved.broker.max.id": _ALONE,
    "server.max.startup.time.ms": _FIXED,
    "socket.connection.setup.timeout.max.ms": _ALONE,
    "socket.connection.setup.timeout.ms": _ALONE,
    "telemetry.max.bytes": _FIXED,
    "transaction.state.log.load.buffer.size": _FIXED,
    "transaction.two.phase.commit.enable": "two-phase commit is not served yet",
    "unstable.feature.versions.enable": "no unstable feature is served yet",
    "zookeeper.clientCnxnSocket": _JVM,
    "zookeeper.max.in.flight.requests": _FIXED,
    "zookeeper.metadata.migration.enable": _OLD,
    "zookeeper.sync.time.ms": _OLD,
}


def why_unserved(name: str) -> str | None:
    """Why a setting of Kafka is left aside; None when it is not, or when nobody knows it."""
    reason = _NAMES.get(name)
    if reason is not None:
        return reason
    return next((why for first, why in _FAMILIES.items() if name.startswith(first)), None)
