"""ACLs as JSON, for the file of a standalone broker and for ZooKeeper.

In the file, a pattern and its ACLs are one change, with Kafka's numeric codes:

    ["AclsReplaced", 2, "orders", 3, 0, [["User:alice", "*", 3, 3]]]

In ZooKeeper, the pattern is the znode's path and the ACLs are its data, in Kafka's format (3.9), so
brokers and tools of Kafka can read them and vice versa:

    {"version": 1, "acls": [{"principal": "User:alice", "permissionType": "Allow", ...}]}
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headwater.metadata.changes import AclsReplaced
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
    from_kafka_name,
    kafka_name,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind

_VERSION: Final = 1


def acls_fields(change: AclsReplaced) -> list[Any]:
    pattern, acls = change.pattern, change.acls
    return [
        int(pattern.kind),
        pattern.name,
        int(pattern.pattern_type),
        acls.version,
        [
            [entry.principal, entry.host, int(entry.operation), int(entry.permission)]
            for entry in acls.entries
        ],
    ]


def read_acls(
    kind: int, name: str, pattern_type: int, version: int, entries: Sequence[Sequence[Any]]
) -> AclsReplaced:
    return AclsReplaced(
        ResourcePattern(ResourceKind(kind), str(name), PatternType(pattern_type)),
        AclSet(
            tuple(
                AclEntry(str(principal), str(host), Operation(operation), Permission(permission))
                for principal, host, operation, permission in entries
            ),
            int(version),
        ),
    )


def entries_to_node(entries: Sequence[AclEntry]) -> Mapping[str, Any]:
    return {
        "version": _VERSION,
        "acls": [
            {
                "principal": entry.principal,
                "permissionType": kafka_name(entry.permission),
                "operation": kafka_name(entry.operation),
                "host": entry.host,
            }
            for entry in entries
        ],
    }


def entries_from_node(found: Mapping[str, Any]) -> tuple[AclEntry, ...]:
    """Return the entries sorted, since Kafka writes them in no particular order."""
    if found["version"] != _VERSION:
        raise ValueError(f"unsupported ACL version {found['version']}")
    entries = {
        AclEntry(
            str(each["principal"]),
            str(each["host"]),
            from_kafka_name(Operation, each["operation"]),
            from_kafka_name(Permission, each["permissionType"]),
        )
        for each in found["acls"]
    }
    return tuple(sorted(entries))
