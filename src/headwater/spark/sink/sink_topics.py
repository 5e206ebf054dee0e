"""Check that the topics of a sink exist before its first row is sent.

Note: a missing topic is fine if the brokers create topics automatically. If they do not, a task
would wait a minute for the topic and then be retried.
"""

from collections.abc import Mapping
from typing import Final

from headwater.client import Admin
from headwater.client.admin.descriptions import ConfigResource
from headwater.client.errors import KafkaError, UnknownTopicOrPartition
from headwater.client.settings import shared_settings
from headwater.spark.client_cache import cached_reader, drop_reader
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.sink_options import SinkOptions

_CREATES: Final = "auto.create.topics.enable"


def check_topics_exist(options: SinkOptions) -> None:
    """Raise `InvalidOption` if the options name a topic that does not exist.

    Topics that the brokers create automatically are accepted.
    """
    brokers = shared_settings(options.client)
    for topic in dict.fromkeys((options.topic, options.marker_topic)):
        if topic is None:
            continue
        try:
            cached_reader(brokers).topics([topic])
        except UnknownTopicOrPartition:
            if not _create_topics(brokers):
                raise InvalidOption(
                    f"there is no topic {topic}, and the brokers do not create topics by "
                    f"themselves: headwater topics create {topic}"
                ) from None
        except KafkaError:
            drop_reader(brokers)
            raise


def _create_topics(brokers: Mapping[str, str]) -> bool:
    with Admin(brokers) as admin:
        asked = ConfigResource.broker(admin.describe_cluster().brokers[0].node_id)
        found = admin.describe_configs([asked], names=[_CREATES])
    return found[asked][_CREATES].value == "true"
