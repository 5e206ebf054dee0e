"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Iterable

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from headwater.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from headwater.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headwater.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.protocol.messages.produce import ProduceResponse
from tests.peers.lab import Lab
from tests.peers.scenarios.produce import BY_NAME, produce
from tests.peers.transcript import Plain

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    kind: int,
    name: str,
    keys: Iterable[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=None if keys is None else tuple(keys),
    )
    return DescribeConfigsRequest(
        resources=(resource,), include_synonyms=synonyms, include_documentation=documentation
    )


def by_name(lab: Lab, request: DescribeConfigsRequest, version: int = 4) -> Plain:
    """A description with configs by name, so that a missing one does not shift the others."""
    answer = lab.get(request, DescribeConfigsResponse, version)
    (result,) = answer.results
    shown = lab.plain(result, version)
    assert isinstance(shown, dict)
    configs: dict[str, Plain] = {}
    for each in result.configs:
        config = lab.plain(each, version)
        assert isinstance(config, dict)
        # The words are Kafka's own; what counts is that there are some.
        documented = config.pop("documentation", None)
        configs[each.name] = {**config, "is documented": bool(documented)}
    return {**shown, "configs": configs}


def alter(
    kind: int, name: str, *configs: tuple[int, str, str | None]
) -> IncrementalAlterConfigsRequest:
    changes = tuple(
        IncrementalConfig(name=key, config_operation=operation, value=value)
        for operation, key, value in configs
    )
    resource = IncrementalResource(resource_type=kind, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=(resource,))


def replacing(kind: int, name: str, **configs: str | None) -> AlterConfigsRequest:
    changes = tuple(
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    )
    return AlterConfigsRequest(
        resources=(AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes),)
    )


def _await(lab: Lab, topic: str, key: str, value: str) -> None:
    """Wait until a config change has reached the broker."""
    lab.until(
        describe(TOPIC, topic, [key]),
        DescribeConfigsResponse,
        lambda answer: [each.value for each in answer.results[0].configs] == [value],
    )


def topic_defaults(lab: Lab) -> None:
    topic = lab.topic()
    for version in (1, 2, 3, 4):
        lab.note(f"version {version}", by_name(lab, describe(TOPIC, topic), version))
    full = describe(TOPIC, topic, synonyms=True, documentation=True)
    lab.note("with synonyms and documentation", by_name(lab, full))


def topic_with_own_values(lab: Lab) -> None:
    topic = lab.topic(retention_ms="5000", cleanup_policy="compact", segment_bytes="1048576")
    full = describe(TOPIC, topic, synonyms=True)
    lab.note("all", by_name(lab, full))
    some = describe(TOPIC, topic, ["retention.ms", "cleanup.policy", "no.such.config"])
    lab.note("some", by_name(lab, some))
    lab.note("no keys", by_name(lab, describe(TOPIC, topic, [])))


def resources_that_are_not_there(lab: Lab) -> None:
    for label, kind, name in (
        ("unknown topic", TOPIC, lab.named("nowhere")),
        ("bad topic name", TOPIC, "a b"),
        ("empty topic name", TOPIC, ""),
        ("unknown broker", BROKER, "77"),
        ("a broker that is no number", BROKER, "one"),
        ("unknown type", 3, "x"),
        ("client metrics", METRICS, "mine"),
        ("empty client metrics", METRICS, ""),
        ("empty group", GROUP, ""),
        ("unknown logger broker", LOGGER, "77"),
    ):
        lab.show(label, describe(kind, name))
    lab.show("none", DescribeConfigsRequest())
    topic = lab.topic()
    twice = describe(TOPIC, topic, ["retention.ms"])
    doubled = DescribeConfigsRequest(resources=twice.resources * 2)
    lab.show("the same twice", doubled)


def broker_configs(lab: Lab) -> None:
    """Only configs that both have."""
    names = (
        "num.partitions",
        "default.replication.factor",
        "auto.create.topics.enable",
        "log.retention.ms",
        "log.retention.hours",
        "log.segment.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "log.cleanup.policy",
        "compression.type",
        "delete.topic.enable",
        "socket.request.max.bytes",
        "fetch.max.bytes",
        "node.id",
        "offsets.topic.replication.factor",
        "unclean.leader.election.enable",
        "log.message.timestamp.type",
        "connections.max.idle.ms",
        "max.incremental.fetch.session.cache.slots",
    )
    described = describe(BROKER, "1", names, synonyms=True)
    lab.note("broker 1", by_name(lab, described))
    lab.note("all brokers", by_name(lab, describe(BROKER, "", synonyms=True)))


def incremental_changes(lab: Lab) -> None:
    topic = lab.topic()

    def change(label: str, *configs: tuple[int, str, str | None]) -> None:
        lab.show(label, alter(TOPIC, topic, *configs))

    change("set", (SET, "retention.ms", "1234"), (SET, "cleanup.policy", "compact"))
    change("append", (APPEND, "cleanup.policy", "delete"))
    _await(lab, topic, "cleanup.policy", "compact,delete")
    change("append what is there", (APPEND, "cleanup.policy", "delete"))
    change("subtract", (SUBTRACT, "cleanup.policy", "compact"))
    _await(lab, topic, "cleanup.policy", "delete")
    change("subtract what is not there", (SUBTRACT, "cleanup.policy", "compact"))
    lab.note("now", by_name(lab, describe(TOPIC, topic, ["retention.ms", "cleanup.policy"])))
    change("delete", (DELETE, "retention.ms", None))
    _await(lab, topic, "retention.ms", "604800000")
    change("delete again", (DELETE, "retention.ms", None))
    change("delete with a value", (DELETE, "retention.ms", "7"))
    for label, operation, key, value in (
        ("append to a number", APPEND, "retention.ms", "1"),
        ("subtract from a number", SUBTRACT, "retention.ms", "1"),
        ("set null", SET, "retention.ms", None),
        ("append null", APPEND, "cleanup.policy", None),
        ("an operation that is none", 9, "retention.ms", "1"),
        ("unknown name", SET, "no.such.config", "1"),
        ("delete an unknown name", DELETE, "no.such.config", None),
        ("append to an unknown name", APPEND, "no.such.config", "1"),
        ("bad value", SET, "retention.ms", "soon"),
        ("out of range", SET, "min.insync.replicas", "0"),
        ("append a bad value", APPEND, "cleanup.policy", "shred"),
        ("empty name", SET, "", "1"),
        ("remote storage", SET, "remote.storage.enable", "true"),
    ):
        change(label, (operation, key, value))
    change("the same twice", (SET, "retention.ms", "1"), (SET, "retention.ms", "2"))
    change("one good, one bad", (SET, "retention.ms", "77"), (SET, "segment.bytes", "x"))
    change("nothing")
    change("subtract the last", (SUBTRACT, "cleanup.policy", "delete"))
    _await(lab, topic, "cleanup.policy", "")
    lab.note("at last", by_name(lab, describe(TOPIC, topic, ["retention.ms", "cleanup.policy"])))
    checked = alter(TOPIC, topic, (SET, "retention.ms", "99"))
    checked = IncrementalAlterConfigsRequest(resources=checked.resources, validate_only=True)
    lab.show("validate only", checked)
    lab.note("not changed", by_name(lab, describe(TOPIC, topic, ["retention.ms"])))
    lab.show("version 0", alter(TOPIC, topic, (SET, "retention.ms", "98")), 0)


def changes_of_other_resources(lab: Lab) -> None:
    retention = (SET, "retention.ms", "1")
    for label, kind, name, change in (
        ("unknown topic", TOPIC, lab.named("nowhere"), retention),
        ("empty topic", TOPIC, "", retention),
        ("unknown type", 3, "x", retention),
        ("unknown broker", BROKER, "77", (SET, "log.retention.ms", "1")),
        ("a broker that is no number", BROKER, "one", (SET, "log.retention.ms", "1")),
        ("a setting of the broker that stays", BROKER, "1", (SET, "node.id", "9")),
        ("read-only cluster-wide", BROKER, "", (SET, "log.dirs", "/x")),
        ("a logger that is none", LOGGER, "1", (SET, "no.such.Logger", "DEBUG")),
    ):
        lab.show(label, alter(kind, name, change))
    topic = lab.topic()
    doubled = alter(TOPIC, topic, retention)
    lab.show("twice", IncrementalAlterConfigsRequest(resources=doubled.resources * 2))
    lab.show("none", IncrementalAlterConfigsRequest())


def levels_of_loggers(lab: Lab) -> None:
    """Only the root logger: other names are those of classes and modules."""

    def change(label: str, *changes: tuple[int, str, str | None]) -> None:
        lab.show(label, alter(LOGGER, "1", *changes))

    def shown(label: str) -> None:
        lab.note(label, by_name(lab, describe(LOGGER, "1", ["root"], synonyms=True)))

    before = lab.get(describe(LOGGER, "1", ["root"]), DescribeConfigsResponse)
    (root,) = before.results[0].configs
    change("set", (SET, "root", "ERROR"))
    shown("after set")
    for level in ("FATAL", "WARN", "error", "NONSENSE", "OFF", "", None):
        change(f"to {level!r}", (SET, "root", level))
    shown("after these")
    change("delete the root's", (DELETE, "root", None))
    change("append", (APPEND, "root", "INFO"))
    change("subtract", (SUBTRACT, "root", "INFO"))
    change("delete of none", (DELETE, "no.such.Logger", None))
    change("one good, one bad", (SET, "root", "ERROR"), (SET, "no.such.Logger", "INFO"))
    change("the same twice", (SET, "root", "ERROR"), (SET, "root", "ERROR"))
    shown("not changed by these")
    checked = alter(LOGGER, "1", (SET, "root", "ERROR"))
    lab.show(
        "validate only",
        IncrementalAlterConfigsRequest(resources=checked.resources, validate_only=True),
    )
    shown("only validated")
    lab.show("of another broker", alter(LOGGER, "77", (SET, "root", "ERROR")))
    lab.show("of no number", alter(LOGGER, "one", (SET, "root", "ERROR")))
    lab.show("without a broker id", alter(LOGGER, "", (SET, "root", "ERROR")))
    lab.show("replacing", replacing(LOGGER, "1", root="ERROR"))
    lab.show("described without a broker id", describe(LOGGER, ""))
    change("put back", (SET, "root", root.value))


def dynamic_broker_configs(lab: Lab) -> None:
    """Cluster-wide and per broker; reset at the end."""
    key = "log.flush.interval.messages"

    def show(label: str) -> None:
        described = describe(BROKER, "1", [key], synonyms=True)
        lab.note(label, by_name(lab, described))
        topic_key = describe(TOPIC, topic, ["flush.messages"], synonyms=True)
        lab.note(f"{label}: a topic", by_name(lab, topic_key))

    topic = lab.topic()
    show("before")
    lab.show("set for all", alter(BROKER, "", (SET, key, "5555")))
    _await(lab, topic, "flush.messages", "5555")
    show("for all")
    lab.show("set for one", alter(BROKER, "1", (SET, key, "6666")))
    _await(lab, topic, "flush.messages", "6666")
    show("for one")
    lab.show("put back for one", alter(BROKER, "1", (DELETE, key, None)))
    lab.show("put back for all", alter(BROKER, "", (DELETE, key, None)))
    _await(lab, topic, "flush.messages", "9223372036854775807")
    show("after")


def broker_configs_of_kerberos(lab: Lab) -> None:
    """Stored per broker, whether it supports GSSAPI or not."""
    values = {
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.kinit.cmd": "/bin/kinit",
        "sasl.kerberos.ticket.renew.window.factor": "0.7",
        "sasl.kerberos.ticket.renew.jitter": "0.04",
        "sasl.kerberos.min.time.before.relogin": "50000",
        "sasl.kerberos.principal.to.local.rules": "DEFAULT",
        "sasl.login.refresh.window.factor": "0.7",
        "sasl.login.refresh.window.jitter": "0.04",
        "sasl.login.refresh.min.period.seconds": "50",
        "sasl.login.refresh.buffer.seconds": "200",
    }

    def show(label: str) -> None:
        lab.note(label, by_name(lab, describe(BROKER, "1", values, synonyms=True)))

    def shown_value(answer: DescribeConfigsResponse) -> str | None:
        found = {each.name: each.value for each in answer.results[0].configs}
        return found["sasl.kerberos.kinit.cmd"]

    show("before")
    for name, value in values.items():
        lab.show(f"{name} for all", alter(BROKER, "", (SET, name, value)))
    lab.show("for one", alter(BROKER, "1", *((SET, name, values[name]) for name in values)))
    described = describe(BROKER, "1", values)
    lab.until(described, DescribeConfigsResponse, lambda it: shown_value(it) == "/bin/kinit")
    show("while set")
    for name in values:
        lab.show(f"a bad {name}", alter(BROKER, "1", (SET, name, "soon")))
    lab.show("put back", alter(BROKER, "1", *((DELETE, name, None) for name in values)))
    lab.until(described, DescribeConfigsResponse, lambda it: shown_value(it) == "/usr/bin/kinit")
    show("after")


def replacing_changes(lab: Lab) -> None:
    topic = lab.topic(cleanup_policy="compact")
    lab.show("replace", replacing(TOPIC, topic, retention_ms="4321"))
    _await(lab, topic, "retention.ms", "4321")
    keys = ["retention.ms", "cleanup.policy"]
    lab.note("what was not named is gone", by_name(lab, describe(TOPIC, topic, keys)))
    lab.show("null", replacing(TOPIC, topic, retention_ms=None))
    lab.show("bad value", replacing(TOPIC, topic, retention_ms="soon"))
    lab.show("unknown name", replacing(TOPIC, topic, no_such_config="1"))
    lab.show("unknown topic", replacing(TOPIC, lab.named("nowhere"), retention_ms="1"))
    for version in range(3):
        lab.show(f"version {version}", replacing(TOPIC, topic, retention_ms="5"), version)
    lab.show("nothing", replacing(TOPIC, topic))
    _await(lab, topic, "retention.ms", "604800000")


def config_resources(lab: Lab) -> None:
    topic = lab.topic()
    for label, types in (("topics", (TOPIC,)), ("all types", ()), ("brokers", (BROKER,))):
        answer = lab.get(
            ListConfigResourcesRequest(resource_types=types), ListConfigResourcesResponse
        )
        mine = [
            lab.plain(each, 1)
            for each in answer.config_resources
            if each.resource_name in (topic, "1")
        ]
        lab.note(label, [answer.error_code.name, *mine])
    for types in ((METRICS,), (GROUP,), (3,), (LOGGER,)):
        lab.show(f"types {types}", ListConfigResourcesRequest(resource_types=types))
    lab.show("version 0", ListConfigResourcesRequest(resource_types=(METRICS,)), 0)


def altered_configs_take_effect(lab: Lab) -> None:
    topic = lab.topic()
    lab.show("a large record", produce(topic, lab.batch("x" * 1000)), BY_NAME)
    lab.show("alter", alter(TOPIC, topic, (SET, "max.message.bytes", "500")))
    lab.until(
        produce(topic, lab.batch("x" * 1000)),
        ProduceResponse,
        lambda answer: (
            answer.responses[0].partition_responses[0].error_code is ErrorCode.MESSAGE_TOO_LARGE
        ),
        BY_NAME,
    )
    lab.note("the limit is lower", True)
