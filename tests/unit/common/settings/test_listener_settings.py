"""Settings of a single listener."""

import pytest

from headwater.common.settings.listener_settings import AllListenerTexts, ScopedName, scoped_name
from headwater.common.settings.ssl_settings import ListenerSslSettings


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("listener.name.outside.ssl.client.auth", ScopedName("outside", None, "ssl.client.auth")),
        ("listener.name.a.b.ssl.key.password", ScopedName("a.b", None, "ssl.key.password")),
        # No mechanism has TLS settings, so this is a listener with a dot in its name.
        ("listener.name.a.plain.ssl.protocol", ScopedName("a.plain", None, "ssl.protocol")),
        ("listener.name.outside.num.partitions", None),
        ("listener.name.ssl.client.auth", None),
        ("ssl.client.auth", None),
    ],
)
def test_prefixed_name_is_parsed_from_its_end(name: str, parts: ScopedName | None) -> None:
    assert scoped_name(name) == parts


def test_listener_setting_has_precedence() -> None:
    texts = AllListenerTexts(
        {
            "ssl.client.auth": "requested",
            "ssl.protocol": "TLSv1.2",
            "listener.name.outside.ssl.client.auth": "required",
            "num.partitions": "3",
        }
    )
    outside = texts.of("OUTSIDE").read(ListenerSslSettings)
    assert outside == ListenerSslSettings(ssl_client_auth="required", ssl_protocol="TLSv1.2")
    assert texts.of("INSIDE").read(ListenerSslSettings).ssl_client_auth == "requested"
    assert texts.listeners() == ["outside"]
    assert texts.get("num.partitions") is None


def test_defaults_if_not_set() -> None:
    assert AllListenerTexts({}).of("SSL").read(ListenerSslSettings) == ListenerSslSettings()
