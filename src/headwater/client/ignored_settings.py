"""Settings of Kafka's clients that have no effect here, but are accepted.

Note: only harmless settings are ignored. A setting that changes what is trusted, or how values are
read (`config.providers`), is rejected like a misspelt one.
"""

from collections.abc import Mapping
from typing import Final

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics() returns the metrics, and there are no reporters": (
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
    "it only concerns Java": (
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
    "it concerns SASL mechanisms that this client does not support": (
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
    ),
    "every connection attempt may take socket.connection.setup.timeout.ms": (
        "socket.connection.setup.timeout.max.ms",
    ),
    "the bootstrap servers are used as soon as all other brokers are gone": (
        "metadata.recovery.rebootstrap.trigger.ms",
    ),
    "slow partitions are avoided by queue length": ("partitioner.availability.timeout.ms",),
    "it is a setting of producers": (
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.class",
        "partitioner.ignore.keys",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
        "value.serializer",
    ),
    "it is a setting of consumers": (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    ),
    "it is a setting of producers and consumers": ("interceptor.classes",),
}

UNUSED_SETTINGS: Final[Mapping[str, str]] = {
    name: reason for reason, names in _REASONS.items() for name in names
}
"""Names of ignored settings, with the reason."""
