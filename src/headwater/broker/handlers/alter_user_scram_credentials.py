"""AlterUserScramCredentials: who can log in by SCRAM from now on."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.cluster.decision import Refusal
from headwater.cluster.scram_users import alter_users, refuse_all
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse | None:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(
        results: tuple[AlterUserScramCredentialsResult, ...],
    ) -> AlterUserScramCredentialsResponse:
        return AlterUserScramCredentialsResponse(results=results)

    submit(
        broker,
        call,
        partial(alter_users, request=request),
        respond=respond,
        refuse=partial(refuse, request),
    )
    return None


def refuse(
    request: AlterUserScramCredentialsRequest, refusal: Refusal
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=refuse_all(request, refusal))
