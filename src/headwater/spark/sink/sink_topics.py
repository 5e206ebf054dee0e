"""Check that the topics of a sink exist before its first row is sent.

Note: a missing topic is fine if the brokers create topics automatically. If they do not, a task
would wait a minute for the topic and then be retried.

Spark plans a sink twice with every batch, in processes that it reuses. A topic that was found is
therefore not looked up again for a minute.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from headwater.client import Admin
from headwater.client.admin.descriptions import ConfigResource
from headwater.client.errors import KafkaError, UnknownTopicOrPartition
from headwater.client.settings import shared_settings
from headwater.spark.client_cache import cached_reader, drop_reader
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.sink_options import SinkOptions

_CREATES: Final = "auto.create.topics.enable"


class FoundTopics:
    """Topics that existed a short while ago, by brokers and name."""

    KEPT_S: Final = 60.0
    TOPICS_MAX: Final = 1_000

    def __init__(self, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._steady_s = steady_s
        self._until_s: OrderedDict[tuple[str, str], float] = OrderedDict()

    def __contains__(self, place: tuple[str, str]) -> bool:
        return self._until_s.get(place, 0.0) > self._steady_s()

    def add(self, place: tuple[str, str]) -> None:
        self._until_s.pop(place, None)
        self._until_s[place] = self._steady_s() + self.KEPT_S
        while len(self._until_s) > self.TOPICS_MAX:
            self._until_s.popitem(last=False)


_found: Final = FoundTopics()


def check_topics_exist(options: SinkOptions) -> None:
    """Raise `InvalidOption` if the options name a topic that does not exist.

    Topics that the brokers create automatically are accepted.
    """
    brokers = shared_settings(options.client)
    for topic in dict.fromkeys((options.topic, options.marker_topic)):
        place = (brokers.get("bootstrap.servers", ""), topic or "")
        if topic is None or place in _found:
            continue
        try:
            cached_reader(brokers).topics([topic])
            _found.add(place)
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
