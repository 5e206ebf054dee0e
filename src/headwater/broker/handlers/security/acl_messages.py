"""Convert between ACL bindings or filters and their messages.

Note: an unknown code is read as UNKNOWN. It is rejected in a binding, and matches nothing in a
filter. For code 0, UNKNOWN itself, Kafka closes the connection; here the client gets a response.
"""

from typing import Protocol

from headwater.protocol.messages.create_acls import AclCreation
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
    from_code,
)
from headwater.security.authorization.acl_filters import AclFilter
from headwater.security.authorization.authorizer import Operation, ResourceKind


class WrittenFilter(Protocol):
    """Shared fields of DescribeAcls and the filters of DeleteAcls."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def read_creation(written: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            from_code(ResourceKind, written.resource_type),
            written.resource_name,
            from_code(PatternType, written.resource_pattern_type),
        ),
        AclEntry(
            principal=written.principal,
            host=written.host,
            operation=from_code(Operation, written.operation),
            permission=from_code(Permission, written.permission_type),
        ),
    )


def read_filter(written: WrittenFilter) -> AclFilter:
    return AclFilter(
        kind=from_code(ResourceKind, written.resource_type_filter),
        name=written.resource_name_filter,
        pattern_type=from_code(PatternType, written.pattern_type_filter),
        principal=written.principal_filter,
        host=written.host_filter,
        operation=from_code(Operation, written.operation),
        permission=from_code(Permission, written.permission_type),
    )
