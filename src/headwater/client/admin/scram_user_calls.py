"""Describe and alter SCRAM credentials (KIP-554).

Note: the password is not sent. It is salted and hashed here; the result is still a secret, but it
is useless for other clusters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client.admin.admin_calls import Calls, outcome, results_of
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
    """Create or replace a credential. The default salt is random."""

    user: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-256"
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """Delete a credential."""

    user: str
    mechanism: str = "SCRAM-SHA-256"


class UserCalls(Calls):
    """The SCRAM methods of the admin client."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """Iterations per user and mechanism, of these users or of all."""
        deadline_ms = self._deadline_ms(timeout)
        chosen = None if users is None else several(users, "users")
        if chosen is not None and not chosen:
            return {}
        request = DescribeUserScramCredentialsRequest(
            users=None if chosen is None else tuple(UserName(name=name) for name in chosen)
        )
        response = await self._call_any(request, DescribeUserScramCredentialsResponse, deadline_ms)
        if response.error_code is not ErrorCode.NONE:
            raise error_for(response.error_code, response.error_message)
        outcomes: dict[str, dict[str, int] | KafkaError] = {
            each.user: outcome(
                each.error_code, each.error_message, each.user, _iterations(each.credential_infos)
            )
            for each in response.results
        }
        return results_of(outcomes, requested=outcomes if chosen is None else chosen)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        timeout: float | None = None,
    ) -> None:
        """Alter credentials; several of one user are sent in separate requests."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = several(alterations, "alterations")
        outcomes: dict[str, KafkaError | None] = {}
        for part in _split_by_user(wanted):
            for user, failure in (await self._alter(part, deadline_ms)).items():
                outcomes[user] = outcomes.get(user) or failure
        results_of(outcomes, requested=dict.fromkeys(each.user for each in wanted))

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
        response = await self._call_controller(
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
    """Hash the password for the request."""
    mechanism = _mechanism(wanted.mechanism)
    if not wanted.password or "\0" in wanted.password:
        raise InvalidArgument("a password must not be empty or contain NUL")
    if not 1 <= wanted.iterations < 2**31:
        raise InvalidArgument(f"iterations must be between 1 and 2^31 - 1, not {wanted.iterations}")
    salt = wanted.salt or rng.bytes(SALT_BYTES)
    # Brokers reject more iterations anyway, so do not spend the time on them.
    iterations = min(wanted.iterations, 10 * DEFAULT_ITERATIONS)
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted_password(mechanism, wanted.password, salt, iterations),
    )


def _split_by_user(
    wanted: Sequence[ScramUpsertion | ScramDeletion],
) -> list[list[ScramUpsertion | ScramDeletion]]:
    """Split into requests: Kafka 4.1 rejects two mechanisms of one user in one."""
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
        raise InvalidArgument(f"mechanism must be one of {', '.join(BY_NAME)}, not {name!r}")
    return mechanism


def _iterations(infos: Iterable[CredentialInfo]) -> dict[str, int]:
    """Iterations by mechanism; unknown mechanisms of newer brokers by number."""
    known = {int(each): each.mechanism_name for each in ScramMechanism}
    return {known.get(each.mechanism, str(each.mechanism)): each.iterations for each in infos}
