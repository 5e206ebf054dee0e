"""Where rules lie in ZooKeeper, and what stands there: Kafka 3.x's layout.

    /kafka-acl/Topic/orders                      rules for what is called so; * is all
    /kafka-acl-extended/prefixed/Topic/pay-      rules for what begins so
    /kafka-acl-changes/acl_changes_...           a note for each change of the former
    /kafka-acl-extended-changes/acl_changes_...  and of the latter

What a reader would get wrong: brokers of Kafka, and its tools of those days, write here past the
controller. So a change is made only to the version that it was decided on; the version of a
pattern's rules *is* that of its node.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from headwater.common.exceptions import CorruptFile
from headwater.metadata.acl_json import entries_from_node, entries_to_node
from headwater.metadata.changes import AclsReplaced
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.zookeeper_client import Create, Delete, Operation, Set, Stat
from headwater.security.authorization.acl_bindings import (
    AclSet,
    PatternType,
    ResourcePattern,
    from_kafka_name,
    kafka_name,
)
from headwater.security.authorization.authorizer import ResourceKind

LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"

_ROOTS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_KINDS: Final = tuple(
    kind for kind in ResourceKind if kind not in (ResourceKind.UNKNOWN, ResourceKind.ANY)
)
_NOTE: Final = "acl_changes_"

LASTING: Final = (
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"{root}/{kafka_name(kind)}" for root in _ROOTS.values() for kind in _KINDS),
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
)
"""What is there from the first start on, parents before children."""

Found = dict[ResourcePattern, AclSet]


def node_of(pattern: ResourcePattern) -> str:
    return f"{_ROOTS[pattern.pattern_type]}/{kafka_name(pattern.kind)}/{pattern.name}"


def operations_of(change: AclsReplaced) -> Iterator[Operation]:
    """What makes the fact true, and tells whoever follows these nodes."""
    path, acls = node_of(change.pattern), change.acls
    if not acls.entries:
        yield Delete(path=path, version=acls.version - 1)
    elif acls.version == 0:
        yield Create(path=path, data=_dump(entries_to_node(acls.entries)))
    else:
        data = _dump(entries_to_node(acls.entries))
        yield Set(path=path, data=data, version=acls.version - 1)
    yield _note_of(change.pattern)


def ask_for_acls(gathering: ParallelReads, found: Found) -> None:
    """Everything, into `found`."""
    for pattern_type, root in _ROOTS.items():
        for kind in _KINDS:
            gathering.children(
                f"{root}/{kafka_name(kind)}",
                partial(_ask_for_names, gathering, found, kind, pattern_type),
            )


def ask_for_pattern(
    gathering: ParallelReads, found: Found, pattern: ResourcePattern, missing: Callable[[], None]
) -> None:
    """The rules of one pattern, into `found`."""
    gathering.data(node_of(pattern), partial(_take, found, pattern), missing=missing)


def read_notification(data: bytes) -> ResourcePattern:
    """Which pattern has other rules now, by either kind of note."""
    try:
        text = data.decode("utf-8")
        if text.startswith("{"):
            found = json.loads(text)
            kind, name = found["resourceType"], str(found["name"])
            pattern_type = PatternType[str(found["patternType"]).upper()]
        else:
            kind, _, name = text.partition(":")
            pattern_type = PatternType.LITERAL
        pattern = ResourcePattern(from_kafka_name(ResourceKind, kind), name, pattern_type)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(f"{data[:80]!r} does not say whose rules are new: {error}") from error
    if pattern.kind not in _KINDS or pattern_type not in _ROOTS or not name:
        raise CorruptFile(f"{data[:80]!r} does not say whose rules are new")
    return pattern


def _note_of(pattern: ResourcePattern) -> Operation:
    # The names are in capitals here, unlike in the paths: Kafka does this (3.9).
    if pattern.pattern_type is PatternType.LITERAL:
        path, data = LITERAL_CHANGES, f"{pattern.kind.name}:{pattern.name}".encode()
    else:
        path = EXTENDED_CHANGES
        data = _dump(
            {
                "version": 1,
                "resourceType": pattern.kind.name,
                "name": pattern.name,
                "patternType": pattern.pattern_type.name,
            }
        )
    return Create(path=f"{path}/{_NOTE}", data=data, is_sequential=True)


def _ask_for_names(
    gathering: ParallelReads,
    found: Found,
    kind: ResourceKind,
    pattern_type: PatternType,
    names: list[str],
) -> None:
    for name in names:
        ask_for_pattern(gathering, found, ResourcePattern(kind, name, pattern_type), _pass)


def _take(found: Found, pattern: ResourcePattern, data: bytes, stat: Stat) -> None:
    try:
        # An empty node has no rules: Kafka reads it so (3.9).
        entries = entries_from_node(json.loads(data)) if data else ()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(f"the rules in {node_of(pattern)} cannot be read: {error}") from error
    found[pattern] = AclSet(entries, stat.version)


def _dump(written: Mapping[str, object]) -> bytes:
    return json.dumps(written, separators=(",", ":")).encode("utf-8")


def _pass() -> None:
    """It went while we looked, which a note will say."""
