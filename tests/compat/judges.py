"""The clients that test a broker here, other libraries and our own, and their errors."""

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from tests.compat.clients import Client
from tests.compat.confluent_client import Confluent
from tests.compat.foreign import load
from tests.compat.headwater_client import HeadwaterConsumer, HeadwaterProducer
from tests.compat.python_clients import AioKafka, KafkaPython

CONFLUENT: Final = Confluent()
KAFKA_PYTHON: Final = KafkaPython()
AIOKAFKA: Final = AioKafka()

OUR_PRODUCER: Final = HeadwaterProducer()
OUR_CONSUMER: Final = HeadwaterConsumer()

CLIENTS: Final[tuple[Client, ...]] = (
    CONFLUENT,
    KAFKA_PYTHON,
    AIOKAFKA,
    OUR_PRODUCER,
    OUR_CONSUMER,
)

ERRORS: Final[tuple[type[Exception], ...]] = (
    KafkaError,
    KafkaException,
    load("kafka.errors").KafkaError,
    load("aiokafka.errors").KafkaError,
)


def refusal_of(work: Callable[[], object]) -> ErrorCode | None:
    """Return the broker's error that a client raises; None if the client itself gave up."""
    try:
        answer = work()
    except ERRORS as error:
        number = error.args[0].code() if isinstance(error, KafkaException) else _number(error)
        return ErrorCode(number) if number is not None and number > 0 else None
    raise AssertionError(f"not refused, but answered {answer!r}")


def _number(error: Exception) -> int | None:
    if isinstance(error, KafkaError):
        return error.code
    number: int | None = getattr(error, "errno", None)
    return number
