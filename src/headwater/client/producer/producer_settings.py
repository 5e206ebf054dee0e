"""Settings of producers, with Kafka's names and the defaults of Kafka 4.1.

Note: as in Kafka, settings that conflict with idempotence (`acks` other than all, no retries, more
than five requests in flight) silently disable it, but are rejected together with an explicit
`enable.idempotence=true`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.client.settings import ClientSettings, is_set, plugin, read_settings, setting
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.setting_types import boolean, integer, long, one_of, optional, text
from headwater.records.batch_header import Codec

_IN_FLIGHT_MAX = 5
_CODECS = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """Settings of the producer."""

    acks: str = setting(one_of("all", "-1", "0", "1"), "all")
    batch_size: int = setting(integer(0), 16_384)
    buffer_memory: int = setting(long(0), 33_554_432)
    compression_type: str = setting(one_of(*_CODECS), "none")
    compression_gzip_level: int = setting(integer(-1, 9), -1)
    compression_lz4_level: int = setting(integer(1, 17), 9)
    compression_zstd_level: int = setting(integer(-131_072, 22), 3)
    delivery_timeout_ms: int = setting(integer(0), 120_000)
    enable_idempotence: bool = setting(boolean(), True)
    linger_ms: int = setting(long(0), 5)
    max_block_ms: int = setting(long(0), 60_000)
    max_in_flight_requests_per_connection: int = setting(integer(1), 5)
    max_request_size: int = setting(integer(0), 1_048_576)
    metadata_max_idle_ms: int = setting(long(5_000), 300_000)
    partitioner_adaptive_partitioning_enable: bool = setting(boolean(), True)
    partitioner_ignore_keys: bool = setting(boolean(), False)
    retries: int = setting(integer(0), 2**31 - 1)
    transaction_timeout_ms: int = setting(integer(1), 60_000)
    transactional_id: str | None = setting(optional(text()), None)
    # A function (topic, key, value, partition count) -> partition, or "round_robin".
    partitioner_class: object = plugin(None)
    key_serializer: object = plugin(None)
    value_serializer: object = plugin(None)
    interceptor_classes: object = plugin(())
    # Size of record batches from a table; all rows are there, so nothing lingers.
    headwater_table_batch_bytes: int = setting(integer(1), 1_000_000)

    @property
    def codec(self) -> Codec:
        return _CODECS[self.compression_type]

    @property
    def codec_level(self) -> int | None:
        """The compression level; None for codecs without levels."""
        match self.codec:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @property
    def required_acks(self) -> int:
        """`acks` as in the Produce request."""
        return -1 if self.acks == "all" else int(self.acks)


def read_producer_settings(
    given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> ProducerSettings:
    """Read settings and apply Kafka's rules for settings that depend on each other."""
    settings = read_settings(ProducerSettings, given, keywords)
    settings = _with_idempotence(settings, is_set(given, keywords, "enable_idempotence"))
    if settings.transactional_id is not None and not settings.enable_idempotence:
        raise InvalidSetting("transactional.id requires enable.idempotence")
    least_ms = settings.linger_ms + settings.request_timeout_ms
    if settings.delivery_timeout_ms < least_ms:
        if is_set(given, keywords, "delivery_timeout_ms"):
            raise InvalidSetting(
                "delivery.timeout.ms must be at least linger.ms + request.timeout.ms, "
                f"{least_ms}, not {settings.delivery_timeout_ms}"
            )
        settings = replace(settings, delivery_timeout_ms=least_ms)
    return settings


def _with_idempotence(settings: ProducerSettings, is_explicit: bool) -> ProducerSettings:
    if not settings.enable_idempotence:
        return settings
    conflict = None
    if settings.required_acks != -1:
        conflict = "acks=all"
    elif settings.retries == 0:
        conflict = "retries above 0"
    elif settings.max_in_flight_requests_per_connection > _IN_FLIGHT_MAX:
        conflict = f"max.in.flight.requests.per.connection of at most {_IN_FLIGHT_MAX}"
    if conflict is None:
        return settings
    if is_explicit or settings.transactional_id is not None:
        raise InvalidSetting(f"enable.idempotence requires {conflict}")
    return replace(settings, enable_idempotence=False)
