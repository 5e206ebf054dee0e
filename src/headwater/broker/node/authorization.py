"""Which authorizer a broker has, and how it hears of rules that have changed."""

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
    """Without `authorizer.class.name` everybody may do everything, as in Kafka."""
    if not settings.authorizer_class_name:
        if settings.super_users or settings.allow_everyone_if_no_acl_found:
            _log.warning(
                "everybody may do everything: super.users and allow.everyone.if.no.acl.found "
                "mean nothing until authorizer.class.name is set"
            )
        return AllowAll()
    return AclAuthorizer(
        super_users=split_principals(settings.super_users),
        everyone_if_no_acl=settings.allow_everyone_if_no_acl_found,
    )


def load_acls(authorizer: Authorizer, image: ClusterImage) -> None:
    """A start: these are the rules. Nobody has been served yet."""
    apply_acl_changes(authorizer, [AclsReplaced(*each) for each in image.acls.items()])


def apply_acl_changes(authorizer: Authorizer, changes: Iterable[MetadataChange]) -> None:
    """Rules are others from now on, for whatever is asked next."""
    if isinstance(authorizer, AclAuthorizer):
        for change in changes:
            if isinstance(change, AclsReplaced):
                authorizer.replace(change.pattern, change.acls.entries)


def tell_denials(authorizer: Authorizer) -> None:
    """Write the count of denials that were left out of the log; called about once a second."""
    if isinstance(authorizer, AclAuthorizer):
        authorizer.tell_denials()
