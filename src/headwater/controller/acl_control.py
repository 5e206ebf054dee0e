"""Decide CreateAcls and DeleteAcls. Pure.

Note: creating an existing ACL is no error, nor is a filter that matches nothing. Each binding and
each filter is decided on its own; if two filters match the same ACL, both report it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.acl_filters import AclFilter
from headwater.security.authorization.authorizer import CLUSTER, Operation, ResourceKind

MAX_CHANGES: Final = 10_000
"""Maximum of ACLs that one request may create or delete, as in Kafka 4.1."""

MAX_PATTERN_BYTES: Final = 800_000
"""Maximum size of all ACLs of a pattern in ZooKeeper, which stores them in one znode."""

_OTHER_BYTES: Final = 80
"""Size of a stored ACL without principal and host."""

Removed = tuple[AclBinding, ...]


def create_acls(
    image: ClusterImage, bindings: Sequence[AclBinding]
) -> ControllerResult[tuple[ApiError, ...]]:
    """Return one result per binding, in order."""
    additions = _Additions(image)
    outcomes = []
    for binding in bindings:
        error = check_binding(binding) or _check_name(image, binding.pattern)
        outcomes.append(error or additions.add(binding))
    if additions.count > MAX_CHANGES:
        reason = f"a request may create at most {MAX_CHANGES} ACLs"
        too_many = ApiError(ErrorCode.POLICY_VIOLATION, reason)
        return ControllerResult((), tuple(too_many for _ in bindings))
    return ControllerResult(additions.changes(), tuple(outcomes))


def delete_acls(
    image: ClusterImage, filters: Sequence[AclFilter]
) -> ControllerResult[tuple[Removed | ApiError, ...]]:
    """Return the deleted ACLs per filter, in order."""
    outcomes: list[Removed | ApiError] = []
    removed: dict[AclBinding, None] = {}
    for each in filters:
        error = check_filter(each)
        found = () if error is not None else tuple(acls_of(image, each))
        removed.update(dict.fromkeys(found))
        outcomes.append(found if error is None else error)
    if len(removed) > MAX_CHANGES:
        reason = f"a request may delete at most {MAX_CHANGES} ACLs"
        too_many = ApiError(ErrorCode.INVALID_REQUEST, reason)
        return ControllerResult((), tuple(too_many for _ in filters))
    patterns = dict.fromkeys(binding.pattern for binding in removed)
    changes = [
        _replaced(
            image,
            pattern,
            tuple(
                entry
                for entry in _entries(image, pattern)
                if AclBinding(pattern, entry) not in removed
            ),
        )
        for pattern in patterns
    ]
    return ControllerResult(changes, tuple(outcomes))


def acls_of(image: ClusterImage, wanted: AclFilter) -> Iterable[AclBinding]:
    """Yield the ACLs that match a filter, grouped by pattern."""
    for pattern, found in image.acls.items():
        if wanted.matches_pattern(pattern):
            for entry in found.entries:
                if wanted.matches_entry(entry):
                    yield AclBinding(pattern, entry)


def check_binding(binding: AclBinding) -> ApiError | None:
    """Return why a binding is invalid, or None."""
    pattern, entry = binding
    if pattern.kind in (ResourceKind.UNKNOWN, ResourceKind.ANY):
        return _invalid(f"an ACL needs one resource type, not {pattern.kind.name}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(
            f"the pattern type of an ACL is LITERAL or PREFIXED, not {pattern.pattern_type.name}"
        )
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return _invalid(f"an ACL needs one operation or ALL, not {entry.operation.name}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        return _invalid(
            f"the permission type of an ACL is ALLOW or DENY, not {entry.permission.name}"
        )
    if not pattern.name:
        return _invalid("an ACL needs a resource name; * matches all")
    if pattern.kind is ResourceKind.CLUSTER and pattern.name != CLUSTER.name:
        return _invalid(f"the only resource name of type CLUSTER is {CLUSTER.name}")
    if ":" not in entry.principal:
        return _invalid(f"invalid principal {entry.principal!r}, expected a form like User:alice")
    return None


def check_filter(wanted: AclFilter) -> ApiError | None:
    """Return why a filter is invalid, or None."""
    if wanted.kind is ResourceKind.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        return _invalid("unknown resource type or pattern type")
    if wanted.operation is Operation.UNKNOWN or wanted.permission is Permission.UNKNOWN:
        return _invalid("unknown operation or permission type")
    return None


def _check_name(image: ClusterImage, pattern: ResourcePattern) -> ApiError | None:
    """ZooKeeper stores a pattern in a znode of its name, which excludes some names."""
    if image.is_standalone:
        return None
    if pattern.name in (".", "..") or not all(map(_is_plain, pattern.name)):
        return _invalid(f"ZooKeeper cannot store ACLs of a resource named {pattern.name!r}")
    return None


def _is_plain(letter: str) -> bool:
    return letter != "/" and letter.isprintable() and not "\ud800" <= letter <= "\uf8ff"


class _Additions:
    """The ACLs of patterns that get new ones."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._entries: dict[ResourcePattern, dict[AclEntry, None]] = {}
        self._bytes: dict[ResourcePattern, int] = {}
        self.count = 0

    def add(self, binding: AclBinding) -> ApiError:
        """Return `NO_ERROR`, or the error if there are too many."""
        pattern, entry = binding
        if pattern not in self._entries:
            known = _entries(self._image, pattern)
            self._entries[pattern] = dict.fromkeys(known)
            self._bytes[pattern] = sum(map(_written_bytes, known))
        if entry in self._entries[pattern]:
            return NO_ERROR
        taken = self._bytes[pattern] + _written_bytes(entry)
        if taken > MAX_PATTERN_BYTES and not self._image.is_standalone:
            return _invalid(f"{pattern} has too many ACLs; use a prefixed pattern or User:*")
        self._entries[pattern][entry] = None
        self._bytes[pattern] = taken
        self.count += 1
        return NO_ERROR

    def changes(self) -> list[MetadataChange]:
        return [
            _replaced(self._image, pattern, tuple(entries))
            for pattern, entries in self._entries.items()
            if len(entries) > len(_entries(self._image, pattern))
        ]


def _written_bytes(entry: AclEntry) -> int:
    return _OTHER_BYTES + len(json.dumps(entry.principal)) + len(json.dumps(entry.host))


def _entries(image: ClusterImage, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
    known = image.acls.get(pattern)
    return () if known is None else known.entries


def _replaced(
    image: ClusterImage, pattern: ResourcePattern, entries: tuple[AclEntry, ...]
) -> MetadataChange:
    known = image.acls.get(pattern)
    return AclsReplaced(pattern, AclSet(entries, 0 if known is None else known.version + 1))


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)
