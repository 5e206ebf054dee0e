"""Create the broker's authorizer and keep its ACLs up to date."""

import logging
from collections.abc import Iterable

from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.setting_types import split_principals
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.security.authorization.acl_authorizer import AclAuthorizer
from headwater.security.authorization.authorizer import AllowAll, Authorizer

_log = logging.getLogger(__name__)


def authorizer_of(settings: BrokerSettings) -> Authorizer:
    """Return an ACL authorizer; `AllowAll` without `authorizer.class.name`."""
    if not settings.authorizer_class_name:
        if settings.super_users or settings.allow_everyone_if_no_acl_found:
            _log.warning(
                "No authorizer configured, all requests are allowed: super.users and "
                "allow.everyone.if.no.acl.found have no effect without authorizer.class.name"
            )
        return AllowAll()
    return AclAuthorizer(
        super_users=split_principals(settings.super_users),
        everyone_if_no_acl=settings.allow_everyone_if_no_acl_found,
    )


def early_authorizer_of(settings: BrokerSettings) -> Authorizer:
    """Return the authorizer of a controller that has not read the ACLs yet.

    As in Kafka, only super users are authorized: a resource may have ACLs that are still unknown.
    """
    if not settings.authorizer_class_name:
        return AllowAll()
    return AclAuthorizer(super_users=split_principals(settings.super_users))


def load_acls(authorizer: Authorizer, image: ClusterImage) -> None:
    """Load all ACLs at startup, before any request is served."""
    apply_acl_changes(authorizer, [AclsReplaced(*each) for each in image.acls.items()])


def apply_acl_changes(authorizer: Authorizer, changes: Iterable[MetadataChange]) -> None:
    """Apply ACL changes; they are in effect for the next request."""
    if isinstance(authorizer, AclAuthorizer):
        for change in changes:
            if isinstance(change, AclsReplaced):
                authorizer.replace(change.pattern, change.acls.entries)


def log_omitted_denials(authorizer: Authorizer) -> None:
    """Log how many denials were omitted from the log; called about once a second."""
    if isinstance(authorizer, AclAuthorizer):
        authorizer.log_omitted_denials()
