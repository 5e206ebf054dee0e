"""Broker settings of Kafka that Headwater does not support.

`unsupported_reason` covers settings that have no effect here: a broker starts with them and logs
one warning each, so that a `server.properties` written for Kafka can be used as it is.

`rejection_reason` covers the few that prevent the start, because a broker without them would be
less protected than configured: policies written as Java classes, and protection of ZooKeeper. Their
harmless values (Kafka's defaults, or empty) have no effect, like the others.

Note: a family is listed by its prefix only if Headwater has no setting with that prefix. Other
names are listed in full, so that a misspelled one is reported as unknown.
"""

from collections.abc import Iterable
from typing import Final

_ALONE = "there is no KRaft metadata log"
_REPLICAS = "the operating system sizes the buffers of connections between brokers"
_GROUPS = "this type of group is not supported"
_TIERED = "tiered storage is not supported"
_JVM = "it concerns the JVM"
_OLD = "Kafka 4 no longer has it"
_FIXED = "Headwater has a fixed value"
_TOKENS = "delegation tokens are not supported"
_KEEPER_TLS = "TLS to ZooKeeper is not supported"
_NO_PASSWORDS = "passwords cannot be changed at runtime, so none is stored encrypted"
_LOGIN = "brokers' own credentials are set by sasl.jaas.config alone"

_FAMILIES: Final = {
    "controller.listener.names": _ALONE,
    "controller.performance.": _ALONE,
    "controller.quorum.": _ALONE,
    "delegation.token.": _TOKENS,
    "internal.metadata.": _ALONE,
    "metadata.": _ALONE,
    "password.encoder.": _NO_PASSWORDS,
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
    "zookeeper.ssl.": _KEEPER_TLS,
}

_NAMES: Final = {
    "auto.include.jmx.reporter": _JVM,
    "broker.heartbeat.interval.ms": _ALONE,
    "broker.id.generation.enable": _ALONE,
    "broker.session.timeout.ms": _ALONE,
    "control.plane.listener.name": _ALONE,
    "delete.records.purgatory.purge.interval.requests": _FIXED,
    "early.start.listeners": _ALONE,
    "eligible.leader.replicas.enable": "the feature eligible.leader.replicas.version decides",
    "fetch.purgatory.purge.interval.requests": _FIXED,
    "group.coordinator.new.enable": _OLD,
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
    "security.protocol": "it is a client setting; see listener.security.protocol.map",
    "security.providers": _JVM,
    "server.max.startup.time.ms": _FIXED,
    "share.fetch.purgatory.purge.interval.requests": _GROUPS,
    "socket.connection.setup.timeout.max.ms": _ALONE,
    "socket.connection.setup.timeout.ms": _ALONE,
    "telemetry.max.bytes": _FIXED,
    "transaction.state.log.load.buffer.size": _FIXED,
    "transaction.two.phase.commit.enable": "two-phase commit is not supported",
    "unclean.leader.election.interval.ms": "unclean leader elections happen immediately",
    "unstable.feature.versions.enable": "there are no unstable features",
    "zookeeper.clientCnxnSocket": _JVM,
    "zookeeper.max.in.flight.requests": _FIXED,
    "zookeeper.metadata.migration.enable": _OLD,
    "zookeeper.metadata.migration.min.batch.size": _OLD,
    "zookeeper.set.acl": "znodes have no ACLs",
    "zookeeper.sync.time.ms": _OLD,
}

# Settings that a listener, or one mechanism of it, can override.
_OF_LISTENERS: Final = {
    "principal.builder.class": _JVM,
    "sasl.client.callback.handler.class": _LOGIN,
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.login.class": _LOGIN,
    "sasl.login.connect.timeout.ms": _LOGIN,
    "sasl.login.read.timeout.ms": _LOGIN,
    "sasl.login.retry.backoff.max.ms": _LOGIN,
    "sasl.login.retry.backoff.ms": _LOGIN,
    "sasl.mechanism.controller.protocol": _ALONE,
    "sasl.oauthbearer.assertion.algorithm": _LOGIN,
    "sasl.oauthbearer.assertion.claim.aud": _LOGIN,
    "sasl.oauthbearer.assertion.claim.exp.seconds": _LOGIN,
    "sasl.oauthbearer.assertion.claim.iss": _LOGIN,
    "sasl.oauthbearer.assertion.claim.jti.include": _LOGIN,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _LOGIN,
    "sasl.oauthbearer.assertion.claim.sub": _LOGIN,
    "sasl.oauthbearer.assertion.file": _LOGIN,
    "sasl.oauthbearer.assertion.private.key.file": _LOGIN,
    "sasl.oauthbearer.assertion.private.key.passphrase": _LOGIN,
    "sasl.oauthbearer.assertion.template.file": _LOGIN,
    "sasl.oauthbearer.client.credentials.client.id": _LOGIN,
    "sasl.oauthbearer.client.credentials.client.secret": _LOGIN,
    "sasl.oauthbearer.jwt.retriever.class": _LOGIN,
    "sasl.oauthbearer.jwt.validator.class": _JVM,
    "sasl.oauthbearer.scope": _LOGIN,
    "sasl.oauthbearer.token.endpoint.url": _LOGIN,
    "ssl.allow.dn.changes": "a changed key store may have any distinguished name",
    "ssl.allow.san.changes": "a changed key store may have any distinguished name",
    "ssl.engine.factory.class": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
}

_JAVA_CLASS = "Java classes cannot be loaded, and what it forbids would be allowed"
_KAFKA_SECURITY = "org.apache.kafka.common.security"
# Harmless values, besides the empty one.
_REFUSED: Final = {
    "alter.config.policy.class.name": (_JAVA_CLASS, ()),
    "client.quota.callback.class": (_JAVA_CLASS, ()),
    "create.topic.policy.class.name": (_JAVA_CLASS, ()),
    "principal.builder.class": (
        _JAVA_CLASS,
        (f"{_KAFKA_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder",),
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        _JAVA_CLASS,
        (
            f"{_KAFKA_SECURITY}.oauthbearer.DefaultJwtValidator",
            f"{_KAFKA_SECURITY}.oauthbearer.BrokerJwtValidator",
        ),
    ),
    "ssl.engine.factory.class": (_JAVA_CLASS, (f"{_KAFKA_SECURITY}.ssl.DefaultSslEngineFactory",)),
    "zookeeper.set.acl": ("ACLs of znodes are not supported", ("false",)),
    "zookeeper.ssl.client.enable": ("TLS to ZooKeeper is not supported", ("false",)),
}
_PREFIX: Final = "listener.name."


def unsupported_reason(name: str) -> str | None:
    """Return why a setting of Kafka has no effect; None if supported or unknown."""
    plain = _without_listener(name)
    reason = _NAMES.get(plain) or _OF_LISTENERS.get(plain)
    if reason is not None:
        return reason
    if plain in _REFUSED:
        return "it has Kafka's default"
    return next((why for first, why in _FAMILIES.items() if plain.startswith(first)), None)


def rejection_reason(name: str, text: str) -> str | None:
    """Return why a broker must not start with this setting; None if it may."""
    reason, harmless = _REFUSED.get(_without_listener(name), (None, ()))
    if reason is None or not text.strip() or text.strip() in harmless:
        return None
    return f"{name}={text}: {reason}; remove this setting"


def unsupported_names() -> Iterable[str]:
    """Return the names listed in full, to find the nearest to a misspelled one."""
    return (*_NAMES, *_OF_LISTENERS, *_REFUSED)


def _without_listener(name: str) -> str:
    """Strip `listener.name.<listener>.` from a name."""
    if not name.startswith(_PREFIX):
        return name
    return next((each for each in _OF_LISTENERS if name.endswith(f".{each}")), name)
