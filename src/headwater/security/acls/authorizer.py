"""The authorizer that goes by ACLs, and its log.

An answer is remembered until the rules change, so that the question costs little on the way of
every request. `authorize` is for an operation that a client asked for, and a denial is written to
the log (see `denial_log`); `allows` finds out what could be done, and writes nothing.
"""

import logging
from collections.abc import Iterable
from typing import Final

from headwater.model.requester import OURSELVES, Requester
from headwater.security.acls.bindings import AclEntry, ResourcePattern, kafka_name
from headwater.security.acls.denial_log import DenialLog
from headwater.security.acls.index import AclIndex, Verdict
from headwater.security.authorization import Operation, Resource, ResourceKind

_log: Final = logging.getLogger("headwater.authorizer")

REMEMBERED_MOST: Final = 20_000
"""Answers that are kept at one time; whoever asks for more names than that pays for each."""

LONGEST_NAME: Final = 255
"""Of names that are longer no answer is kept, nor all of it logged: they may have megabytes."""

_SUPER_USER: Final = Verdict(True)

Question = tuple[Requester, Operation, Resource | ResourceKind]


class AclAuthorizer:
    """See the module: `headwater.security.authorization.Authorizer`."""

    def __init__(
        self, *, super_users: Iterable[str] = (), everyone_if_no_acl: bool = False
    ) -> None:
        """`super_users` are principals, as `User:admin`, to whom no rule applies."""
        # A broker that asks itself does so by no connection that rules could be about.
        self._super_users = frozenset((*super_users, str(OURSELVES)))
        self._index = AclIndex(everyone_if_no_acl=everyone_if_no_acl)
        self._answers: dict[Question, Verdict] = {}
        self._denials = DenialLog()

    @property
    def allows_everything(self) -> bool:
        return False

    def replace(self, pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
        """These are all rules of a pattern from now on."""
        self._index.replace(pattern, entries)
        self._answers.clear()

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        verdict = self._answers.get((requester, operation, resource))
        if verdict is None:
            verdict = self._find((requester, operation, resource))
        if verdict.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _write_down((requester, operation, resource), verdict)
            return True
        if self._denials.has_room(requester, operation, resource.kind):
            _write_down((requester, operation, resource), verdict)
        return False

    def allows(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        verdict = self._answers.get((requester, operation, resource))
        if verdict is None:
            verdict = self._find((requester, operation, resource))
        return verdict.is_allowed

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        verdict = self._answers.get((requester, operation, kind))
        if verdict is None:
            verdict = self._find((requester, operation, kind))
        if verdict.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _write_down((requester, operation, kind), verdict)
            return True
        if self._denials.has_room(requester, operation, kind):
            _write_down((requester, operation, kind), verdict)
        return False

    def tell_denials(self) -> None:
        """Write the count of denials that were not written one by one; to be called regularly."""
        self._denials.tell()

    def _find(self, question: Question) -> Verdict:
        requester, operation, target = question
        if str(requester.principal) in self._super_users:
            verdict = _SUPER_USER
        elif isinstance(target, ResourceKind):
            verdict = self._index.judge_any(requester, operation, target)
        else:
            verdict = self._index.judge(requester, operation, target)
        if isinstance(target, Resource) and len(target.name) > LONGEST_NAME:
            return verdict
        if len(self._answers) >= REMEMBERED_MOST:
            self._answers.clear()
        self._answers[question] = verdict
        return verdict


def _write_down(question: Question, verdict: Verdict) -> None:
    requester, operation, target = question
    _log.log(
        logging.DEBUG if verdict.is_allowed else logging.INFO,
        "%s from %s is %s %s on %s%s",
        requester.principal,
        requester.host,
        "allowed" if verdict.is_allowed else "denied",
        operation.name,
        _named(target),
        "" if verdict.rule is None else f", by the rule: {verdict.rule}",
    )


def _named(target: Resource | ResourceKind) -> str:
    if isinstance(target, ResourceKind):
        return f"any {kafka_name(target)}"
    name = target.name
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    return f"{kafka_name(target.kind)}:{shown}"
