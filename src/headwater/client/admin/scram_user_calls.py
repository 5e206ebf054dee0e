"""Users of SCRAM: who there is, new passwords, and the end of them (KIP-554).

What a reader would get wrong: a password does not travel. It is salted here, and what is sent is
good for this cluster's copy of the credential and for nothing else; still it is a secret.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client.admin.admin_calls import Calls, outcome, settle
from headwater.client.argument_checks import several
from headwater.client.errors import InvalidArgument, KafkaError, error_for
from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Random
from headwater.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headwater.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from headwater.security.authentication.scram import (
    BY_NAME,
    DEFAULT_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    salted_password,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A new user, or a new password of one. A salt is drawn if none is given."""

    user: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-256"
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """One of a user's credentials shall go."""

    user: str
    mechanism: str = "SCRAM-SHA-256"


class UserCalls(Calls):
    """See the module."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """The iterations of each mechanism of each user; of all users if none is named."""
        deadline_ms = self._deadline_ms(timeout)
        asked = None if users is None else several(users, "users")
        if asked is not None and not asked:
            return {}
        request = DescribeUserScramCredentialsRequest(
            users=None if asked is None else tuple(UserName(name=name) for name in asked)
        )
        response = await self._of_any(request, DescribeUserScramCredentialsResponse, deadline_ms)
        if response.error_code is not ErrorCode.NONE:
            raise error_for(response.error_code, response.error_message)
        outcomes: dict[str, dict[str, int] | KafkaError] = {
            each.user: outcome(
                each.error_code, each.error_message, each.user, _iterations(each.credential_infos)
            )
            for each in response.results
        }
        return settle(outcomes, asked=outcomes if asked is None else asked)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        timeout: float | None = None,
    ) -> None:
        """Change users. Where a user has several credentials, they are changed one by one."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = several(alterations, "alterations")
        outcomes: dict[str, KafkaError | None] = {}
        for part in _one_of_each_user(wanted):
            for user, failure in (await self._alter(part, deadline_ms)).items():
                outcomes[user] = outcomes.get(user) or failure
        settle(outcomes, asked=dict.fromkeys(each.user for each in wanted))

    async def _alter(
        self, wanted: Sequence[ScramUpsertion | ScramDeletion], deadline_ms: int
    ) -> Mapping[str, KafkaError | None]:
        request = AlterUserScramCredentialsRequest(
            deletions=tuple(
                ScramCredentialDeletion(name=each.user, mechanism=_mechanism(each.mechanism))
                for each in wanted
                if isinstance(each, ScramDeletion)
            ),
            upsertions=tuple(
                upsertion(each, self._cluster.rng)
                for each in wanted
                if isinstance(each, ScramUpsertion)
            ),
        )
        response = await self._of_controller(
            request,
            AlterUserScramCredentialsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.results],
        )
        return {
            each.user: outcome(each.error_code, each.error_message, each.user, None)
            for each in response.results
        }


def upsertion(wanted: ScramUpsertion, rng: Random) -> ScramCredentialUpsertion:
    """What is said of a new password."""
    mechanism = _mechanism(wanted.mechanism)
    if not wanted.password or "\0" in wanted.password:
        raise InvalidArgument("a password must not be empty, and has no NUL in it")
    if not 1 <= wanted.iterations < 2**31:
        raise InvalidArgument(f"iterations cannot be {wanted.iterations}")
    salt = wanted.salt or rng.bytes(SALT_BYTES)
    # So many that no broker would take them are not worth the time.
    iterations = min(wanted.iterations, 10 * DEFAULT_ITERATIONS)
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted_password(mechanism, wanted.password, salt, iterations),
    )


def _one_of_each_user(
    wanted: Sequence[ScramUpsertion | ScramDeletion],
) -> list[list[ScramUpsertion | ScramDeletion]]:
    """Kafka (4.1) takes two mechanisms of one user in a request for a mistake."""
    parts: list[list[ScramUpsertion | ScramDeletion]] = []
    seen: Counter[str] = Counter()
    for each in wanted:
        if seen[each.user] == len(parts):
            parts.append([])
        parts[seen[each.user]].append(each)
        seen[each.user] += 1
    return parts


def _mechanism(name: str) -> ScramMechanism:
    mechanism = BY_NAME.get(name)
    if mechanism is None:
        raise InvalidArgument(f"a mechanism is one of {', '.join(BY_NAME)}, and not {name!r}")
    return mechanism


def _iterations(infos: Iterable[CredentialInfo]) -> dict[str, int]:
    """A mechanism that is not known here has been learnt by newer brokers."""
    known = {int(each): each.mechanism_name for each in ScramMechanism}
    return {known.get(each.mechanism, str(each.mechanism)): each.iterations for each in infos}
