"""Which authorizer a broker has, and how it hears of rules that have changed."""

import logging
from collections.abc import Iterable

from headwater.cluster.facts import AclsReplaced, Fact
from headwater.cluster.image import ClusterImage
from headwater.model.broker_settings import BrokerSettings
from headwater.model.setting_kinds import split_principals
from headwater.security.acls.authorizer import AclAuthorizer
from headwater.security.authorization import AllowAll, Authorizer

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


def know_acls(authorizer: Authorizer, image: ClusterImage) -> None:
    """A start: these are the rules. Nobody has been served yet."""
    obey_acls(authorizer, [AclsReplaced(*each) for each in image.acls.items()])


def obey_acls(authorizer: Authorizer, facts: Iterable[Fact]) -> None:
    """Rules are others from now on, for whatever is asked next."""
    if isinstance(authorizer, AclAuthorizer):
        for fact in facts:
            if isinstance(fact, AclsReplaced):
                authorizer.replace(fact.pattern, fact.acls.entries)


def tell_denials(authorizer: Authorizer) -> None:
    """Write the count of denials that were left out of the log; called about once a second."""
    if isinstance(authorizer, AclAuthorizer):
        authorizer.tell_denials()
