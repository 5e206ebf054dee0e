"""The package `headwater.client`: its names, and what they import."""

import subprocess
import sys

import pytest

import headwater.client


@pytest.mark.parametrize("name", headwater.client.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert name in dir(headwater.client)
    found = getattr(headwater.client, name)
    # Constants have no __name__.
    assert name.isupper() or found.__name__ == name


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaProducer'"):
        headwater.client.KafkaProducer  # noqa: B018


def test_importing_the_admin_client_does_not_import_the_others() -> None:
    """`headwater topics list` is slow if it imports the consumer and Arrow first."""
    code = (
        "import sys; from headwater.client import Admin;"
        "heavy = ('pyarrow', 'headwater.client.consumer.blocking_consumer',"
        " 'headwater.client.producer.blocking_producer', 'headwater.records.kernel._kernel');"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_classes_that_users_create_are_public() -> None:
    """A list config change needs its operation, an interceptor returns a record."""
    from headwater.client import Assignor, ConfigChange, ConfigOperation, ProducerRecord

    assert ConfigChange(ConfigOperation.APPEND, "compact").value == "compact"
    assert ProducerRecord(topic="tea", value=b"green").topic == "tea"
    assert isinstance(Assignor, type)
