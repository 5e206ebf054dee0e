"""Producer settings that depend on each other."""

import pytest

from headwater.client.producer.producer_settings import read_producer_settings
from headwater.common.exceptions import InvalidSetting, UnknownSetting
from headwater.records.batch_header import Codec


def read(**keywords: object) -> object:
    return read_producer_settings({"bootstrap.servers": "a:1"}, keywords)


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_a_conflicting_setting_disables_idempotence_unless_it_is_explicit(
    settings: dict[str, object],
) -> None:
    assert not read_producer_settings({"bootstrap.servers": "a:1"}, settings).enable_idempotence
    with pytest.raises(InvalidSetting, match=r"enable\.idempotence"):
        read(enable_idempotence=True, **settings)
    with pytest.raises(InvalidSetting, match=r"enable\.idempotence"):
        read(transactional_id="t", **settings)


def test_transactions_require_idempotence() -> None:
    with pytest.raises(InvalidSetting, match=r"transactional\.id"):
        read(transactional_id="t", enable_idempotence=False)


def test_the_delivery_timeout_covers_linger_and_request_timeout() -> None:
    with pytest.raises(InvalidSetting, match=r"delivery\.timeout\.ms"):
        read(delivery_timeout_ms=30_000)
    settings = read_producer_settings({"bootstrap.servers": "a:1"}, {"request_timeout_ms": 200_000})
    assert settings.delivery_timeout_ms == 200_005


def test_codecs_use_their_compression_levels() -> None:
    settings = read_producer_settings(
        {"bootstrap.servers": "a:1", "compression.type": "zstd", "compression.zstd.level": 7}, {}
    )
    assert (settings.codec, settings.codec_level) == (Codec.ZSTD, 7)
    assert read_producer_settings({"bootstrap.servers": "a:1"}, {}).codec_level is None


def test_an_unknown_setting_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean linger\.ms\?"):
        read(linger=5)
