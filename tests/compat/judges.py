"""The foreign clients that judge a broker here, and what they raise."""

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from headwater.model.errors import ErrorCode
from tests.compat.clients import Client
from tests.compat.confluent_client import Confluent
from tests.compat.foreign import load
from tests.compat.python_clients import AioKafka, KafkaPython

CONFLUENT: Final = Confluent()
KAFKA_PYTHON: Final = KafkaPython()
AIOKAFKA: Final = AioKafka()

CLIENTS: Final[tuple[Client, ...]] = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)

ERRORS: Final[tuple[type[Exception], ...]] = (
    KafkaException,
    load("kafka.errors").KafkaError,
    load("aiokafka.errors").KafkaError,
)


def refusal_of(work: Callable[[], object]) -> ErrorCode | None:
    """The broker's error that a client raises; nothing if the client itself gave up."""
    try:
        answer = work()
    except ERRORS as error:
        number = error.args[0].code() if isinstance(error, KafkaException) else _number(error)
        return ErrorCode(number) if number is not None and number > 0 else None
    raise AssertionError(f"not refused, but answered {answer!r}")


def _number(error: Exception) -> int | None:
    number: int | None = getattr(error, "errno", None)
    return number
