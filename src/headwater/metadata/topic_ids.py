"""Create topic ids (TI-1): random UUIDs that are safe on a command line."""

from collections.abc import Container

from headwater.common.ids import TopicId
from headwater.common.ports import Random


def new_topic_id(taken: Container[TopicId], rng: Random) -> TopicId:
    """Return an unused id. Version 4 excludes the reserved ids zero and one."""
    while True:
        raw = bytearray(rng.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(raw))
        # A leading '-' would look like a command-line option.
        if topic_id not in taken and not str(topic_id).startswith("-"):
            return topic_id
