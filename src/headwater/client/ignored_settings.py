"""Settings of Kafka's clients that are none of ours: a file that has them is taken over as it is.

What a reader would get wrong: only what does no harm is left aside. A setting that would change
who is trusted, or how a value is to be read (`config.providers`), is refused like a misspelt one.
"""

from collections.abc import Mapping
from typing import Final

_WHYS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics() has the figures, and nobody is sent them": (
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
    "it is about Java": (
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
    "it is about logins that this client does not have": (
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
    "every attempt to connect may take socket.connection.setup.timeout.ms": (
        "socket.connection.setup.timeout.max.ms",
    ),
    "the first brokers are asked again as soon as all others are gone": (
        "metadata.recovery.rebootstrap.trigger.ms",
    ),
    "queues that do not get shorter are avoided anyway": ("partitioner.availability.timeout.ms",),
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
    name: why for why, names in _WHYS.items() for name in names
}
"""Their names, and why each is of no use to a client that does not have it."""
