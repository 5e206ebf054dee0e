"""Request the topics of clusters, to check a pipeline."""

from collections.abc import Mapping
from typing import Final

from headwater.client import Admin
from headwater.client.errors import KafkaTimeout
from headwater.client.settings import shared_settings

# Short, because a user waits for the check.
_TIMEOUT_S: Final = 3.0


class BrokerTopics:
    """Topics by cluster; each cluster is requested once."""

    def known(self, client: Mapping[str, str]) -> set[str]:
        with Admin({**shared_settings(client), "client.id": "headwater-pipeline-check"}) as admin:
            try:
                return set(admin.list_topics(include_internal=True, timeout=_TIMEOUT_S))
            except KafkaTimeout as error:
                why = error.__cause__ if str(error.__cause__) else error
                raise KafkaTimeout(f"no broker answers: {why}") from error
