"""The package `headwater.client` itself: its names, and what each of them loads."""

import subprocess
import sys

import pytest

import headwater.client


@pytest.mark.parametrize("name", headwater.client.__all__)
def test_every_name_that_the_package_promises_can_be_had(name: str) -> None:
    assert name in dir(headwater.client)
    found = getattr(headwater.client, name)
    # Constants have no name of their own.
    assert name.isupper() or found.__name__ == name


def test_a_name_that_the_package_does_not_have_is_refused_as_any_module_does() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaProducer'"):
        headwater.client.KafkaProducer  # noqa: B018


def test_an_admin_client_is_not_made_to_wait_for_the_others() -> None:
    """`headwater topics list` feels slow when it loads a consumer and Arrow first."""
    code = (
        "import sys; from headwater.client import Admin;"
        "heavy = ('pyarrow', 'headwater.client.consumer.blocking_consumer',"
        " 'headwater.client.producer.blocking_producer', 'headwater.records.kernel._kernel');"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_what_users_have_to_make_themselves_can_be_had_without_knowing_the_rooms() -> None:
    """A change of a list needs its operation, an interceptor's answer is a record."""
    from headwater.client import Assignor, ConfigChange, ConfigOperation, ProducerRecord

    assert ConfigChange(ConfigOperation.APPEND, "compact").value == "compact"
    assert ProducerRecord(topic="tea", value=b"green").topic == "tea"
    assert isinstance(Assignor, type)
