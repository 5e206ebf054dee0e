"""Paths and data of ACL znodes: the layout of Kafka 3.x.

    /kafka-acl/Topic/orders                      ACLs of a literal name; * matches all
    /kafka-acl-extended/prefixed/Topic/pay-      ACLs of a prefix
    /kafka-acl-changes/acl_changes_...           notifications of literal changes
    /kafka-acl-extended-changes/acl_changes_...  notifications of prefixed changes

Note: Kafka 3.x's brokers and tools change these znodes without the controller. So a change is only
applied to the znode version that it was decided on; the version of a pattern's ACLs is that of its
znode.
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
_NOTIFICATION: Final = "acl_changes_"

LASTING: Final = (
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"{root}/{kafka_name(kind)}" for root in _ROOTS.values() for kind in _KINDS),
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
)
"""Persistent znodes, parents before children."""

Found = dict[ResourcePattern, AclSet]


def node_of(pattern: ResourcePattern) -> str:
    return f"{_ROOTS[pattern.pattern_type]}/{kafka_name(pattern.kind)}/{pattern.name}"


def operations_of(change: AclsReplaced) -> Iterator[Operation]:
    """Yield the operations of a change, including the notification for watchers."""
    path, acls = node_of(change.pattern), change.acls
    if not acls.entries:
        yield Delete(path=path, version=acls.version - 1)
    elif acls.version == 0:
        yield Create(path=path, data=_dump(entries_to_node(acls.entries)))
    else:
        data = _dump(entries_to_node(acls.entries))
        yield Set(path=path, data=data, version=acls.version - 1)
    yield _notification_of(change.pattern)


def read_acls(reads: ParallelReads, found: Found) -> None:
    """Read all ACLs into `found`."""
    for pattern_type, root in _ROOTS.items():
        for kind in _KINDS:
            reads.children(
                f"{root}/{kafka_name(kind)}",
                partial(_read_names, reads, found, kind, pattern_type),
            )


def read_pattern(
    reads: ParallelReads, found: Found, pattern: ResourcePattern, missing: Callable[[], None]
) -> None:
    """Read the ACLs of one pattern into `found`."""
    reads.data(node_of(pattern), partial(_take, found, pattern), missing=missing)


def read_notification(data: bytes) -> ResourcePattern:
    """Return the pattern that a notification of either kind announces."""
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
        raise CorruptFile(f"invalid ACL change notification {data[:80]!r}: {error}") from error
    if pattern.kind not in _KINDS or pattern_type not in _ROOTS or not name:
        raise CorruptFile(f"invalid ACL change notification {data[:80]!r}")
    return pattern


def _notification_of(pattern: ResourcePattern) -> Operation:
    # Unlike in the paths, the names are in capitals here, as in Kafka 3.9.
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
    return Create(path=f"{path}/{_NOTIFICATION}", data=data, is_sequential=True)


def _read_names(
    reads: ParallelReads,
    found: Found,
    kind: ResourceKind,
    pattern_type: PatternType,
    names: list[str],
) -> None:
    for name in names:
        read_pattern(reads, found, ResourcePattern(kind, name, pattern_type), _pass)


def _take(found: Found, pattern: ResourcePattern, data: bytes, stat: Stat) -> None:
    try:
        # An empty znode has no ACLs, as in Kafka 3.9.
        entries = entries_from_node(json.loads(data)) if data else ()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(f"invalid ACLs in {node_of(pattern)}: {error}") from error
    found[pattern] = AclSet(entries, stat.version)


def _dump(written: Mapping[str, object]) -> bytes:
    return json.dumps(written, separators=(",", ":")).encode("utf-8")


def _pass() -> None:
    """It was deleted meanwhile; a notification will announce that."""
