"""List, create and delete ACLs.

    admin.create_acls([Acl(resource_type=ResourceKind.TOPIC, resource_name="tea",
                           principal="User:alice", operation=Operation.READ)])

Note: `Acl` serves as a binding and as a filter. A field that is left out matches anything in a
filter; in a new binding it has a default: a literal name, any host, and permission Allow.
"""

from collections.abc import Iterable
from dataclasses import replace

from headwater.client.admin.admin_calls import Calls, checked, outcome, results_of
from headwater.client.admin.descriptions import Acl
from headwater.client.argument_checks import several
from headwater.client.errors import KafkaError
from headwater.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headwater.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headwater.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headwater.security.authorization.acl_bindings import (
    WILDCARD,
    PatternType,
    Permission,
    from_code,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind


class AclCalls(Calls):
    """The ACL methods of the admin client."""

    async def describe_acls(
        self, matching: Acl | None = None, *, timeout: float | None = None
    ) -> list[Acl]:
        """List the ACLs that match the filter, or all.

        Raises SECURITY_DISABLED if the broker has no authorizer.
        """
        wanted = matching or Acl()
        answer = await self._call_any(
            DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            ),
            DescribeAclsResponse,
            self._deadline_ms(timeout),
        )
        checked(answer.error_code, answer.error_message, "ACLs")
        return [
            Acl(
                resource_type=from_code(ResourceKind, resource.resource_type),
                resource_name=resource.resource_name,
                pattern_type=from_code(PatternType, resource.pattern_type),
                principal=each.principal,
                host=each.host,
                operation=from_code(Operation, each.operation),
                permission_type=from_code(Permission, each.permission_type),
            )
            for resource in answer.resources
            for each in resource.acls
        ]

    async def create_acls(self, acls: Iterable[Acl], *, timeout: float | None = None) -> None:
        """Create ACL bindings. An existing binding is not an error."""
        wanted = several(acls, "acls")
        answer = await self._call_controller(
            CreateAclsRequest(creations=tuple(_creation(as_binding(each)) for each in wanted)),
            CreateAclsResponse,
            self._deadline_ms(timeout),
            lambda answer: [each.error_code for each in answer.results],
        )
        results_of(
            {
                acl: outcome(each.error_code, each.error_message, as_binding(acl), None)
                for acl, each in zip(wanted, answer.results, strict=False)
            },
            requested=wanted,
        )

    async def delete_acls(
        self, matching: Iterable[Acl], *, timeout: float | None = None
    ) -> dict[Acl, list[Acl]]:
        """Delete the bindings that match each filter and return them per filter."""
        wanted = several(matching, "filters")
        answer = await self._call_controller(
            DeleteAclsRequest(
                filters=tuple(
                    DeleteAclsFilter(
                        resource_type_filter=each.resource_type,
                        resource_name_filter=each.resource_name,
                        pattern_type_filter=each.pattern_type,
                        principal_filter=each.principal,
                        host_filter=each.host,
                        operation=each.operation,
                        permission_type=each.permission_type,
                    )
                    for each in wanted
                )
            ),
            DeleteAclsResponse,
            self._deadline_ms(timeout),
            lambda answer: [each.error_code for each in answer.filter_results],
        )
        outcomes: dict[Acl, list[Acl] | KafkaError] = {}
        for acl, each in zip(wanted, answer.filter_results, strict=False):
            # Kafka 3.9 on ZooKeeper reports errors per matching binding, too.
            failed = next((one for one in each.matching_acls if one.error_code), None)
            code = each.error_code if failed is None else failed.error_code
            message = each.error_message if failed is None else failed.error_message
            removed = [_removed(one) for one in each.matching_acls]
            outcomes[acl] = outcome(code, message, acl, removed)
        return results_of(outcomes, requested=wanted)


def as_binding(acl: Acl) -> Acl:
    """A binding with its defaults filled in."""
    return replace(
        acl,
        pattern_type=PatternType.LITERAL
        if acl.pattern_type is PatternType.ANY
        else acl.pattern_type,
        host=WILDCARD if acl.host is None else acl.host,
        permission_type=Permission.ALLOW
        if acl.permission_type is Permission.ANY
        else acl.permission_type,
    )


def _creation(rule: Acl) -> AclCreation:
    return AclCreation(
        resource_type=rule.resource_type,
        resource_name=rule.resource_name or "",
        resource_pattern_type=rule.pattern_type,
        principal=rule.principal or "",
        host=rule.host or WILDCARD,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )


def _removed(written: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        resource_type=from_code(ResourceKind, written.resource_type),
        resource_name=written.resource_name,
        pattern_type=from_code(PatternType, written.pattern_type),
        principal=written.principal,
        host=written.host,
        operation=from_code(Operation, written.operation),
        permission_type=from_code(Permission, written.permission_type),
    )
