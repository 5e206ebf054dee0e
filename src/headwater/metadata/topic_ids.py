"""Fresh topic ids (TI-1): random UUIDs of version 4 that read well on a command line."""

from collections.abc import Container

from headwater.common.ids import TopicId
from headwater.common.ports import Random


def fresh_topic_id(taken: Container[TopicId], rng: Random) -> TopicId:
    """An id that no topic has. Version 4 rules out the reserved ids, zero and one."""
    while True:
        raw = bytearray(rng.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(raw))
        # A leading '-' would look like an option.
        if topic_id not in taken and not str(topic_id).startswith("-"):
            return topic_id
