"""Create the group member for a consumer's `group.protocol`."""

import base64
from typing import Final

from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.group.classic_member import ClassicMember
from headwater.client.consumer.group.consumer_member import ConsumerMember
from headwater.client.consumer.group.member import MemberSettings
from headwater.common.ports import Random

_UUID_BYTES: Final = 16

Member = ClassicMember | ConsumerMember


def new_member(settings: ConsumerSettings, group_id: str, rng: Random) -> Member:
    member_settings = MemberSettings(
        group_id=group_id,
        group_instance_id=settings.group_instance_id,
        rack_id=settings.client_rack or None,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
    )
    if settings.group_protocol == "classic":
        return ClassicMember(member_settings, settings.assignors())
    # In Kafka's format; the broker only requires unique ids.
    member_id = base64.urlsafe_b64encode(rng.bytes(_UUID_BYTES)).rstrip(b"=").decode()
    return ConsumerMember(member_settings, member_id, settings.group_remote_assignor)
