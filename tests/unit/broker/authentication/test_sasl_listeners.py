"""SASL settings of listeners, and errors in them."""

import random
from collections.abc import Mapping

import pytest

from headwater.broker.authentication.sasl_listener import SaslListener
from headwater.broker.authentication.sasl_listeners import inter_broker_credentials, sasl_listeners
from headwater.broker.node.listeners import own_endpoints
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import parse_broker_settings
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.plain_mechanism import PlainServer
from headwater.security.authentication.scram_server import ScramServer
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import ScriptedClock

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BASE = {
    "listeners": "INSIDE://:1,OUTSIDE://:2,OPEN://:3",
    "listener.security.protocol.map": (
        "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,OPEN:PLAINTEXT"
    ),
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.inside.plain.sasl.jaas.config": (
        f'{PLAIN} required username="b1" password="broker-secret" user_b1="broker-secret";'
    ),
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


def listeners(texts: Mapping[str, str]) -> Mapping[str, SaslListener]:
    settings = parse_broker_settings(texts)
    return sasl_listeners(
        settings,
        own_endpoints(settings),
        clock=ScriptedClock(),
        rng=SeededRandom(random.Random(1)),
        timer=Timer(),
        scram_users=lambda *_: None,
    )


def test_listeners_have_their_own_mechanisms_in_order() -> None:
    found = listeners(BASE)
    assert {name: list(each.mechanisms) for name, each in found.items()} == {
        "INSIDE": ["SCRAM-SHA-512", "PLAIN"],
        "OUTSIDE": ["SCRAM-SHA-256"],
    }
    inside = found["INSIDE"]
    assert isinstance(inside.mechanisms["PLAIN"].begin(), PlainServer)
    assert isinstance(inside.mechanisms["SCRAM-SHA-512"].begin(), ScramServer)
    assert (inside.receive_limit_bytes, inside.failed_delay_ms) == (524_288, 100)


def test_plain_users_belong_to_their_listener() -> None:
    exchange = listeners(BASE)["INSIDE"].mechanisms["PLAIN"].begin()
    assert exchange.respond(b"\0b1\0broker-secret") == b""
    assert exchange.user == "b1"


def test_limits_can_be_set_per_listener_or_per_mechanism() -> None:
    texts = {
        "connections.max.reauth.ms": "1000",
        "listener.name.inside.connections.max.reauth.ms": "2000",
        "listener.name.inside.plain.connections.max.reauth.ms": "3000",
        "listener.name.outside.sasl.server.max.receive.size": "9999",
        "connection.failed.authentication.delay.ms": "0",
    }
    found = listeners({**BASE, **texts})
    reauth = {
        (listener, mechanism): offered.max_reauth_ms
        for listener, each in found.items()
        for mechanism, offered in each.mechanisms.items()
    }
    assert reauth == {
        ("INSIDE", "SCRAM-SHA-512"): 2000,
        ("INSIDE", "PLAIN"): 3000,
        ("OUTSIDE", "SCRAM-SHA-256"): 1000,
    }
    assert found["OUTSIDE"].receive_limit_bytes == 9999
    assert found["OUTSIDE"].failed_delay_ms == 0


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"sasl.enabled.mechanisms": ""}, "INSIDE uses SASL: set sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "must be one of PLAIN, .* not GSSAPI"),
        ({"listener.name.inside.sasl.enabled.mechanisms": "plain"}, "not plain"),
        (
            {"listener.name.outside.sasl.enabled.mechanisms": "PLAIN"},
            "set listener.name.outside.plain.sasl.jaas.config to .*PlainLoginModule",
        ),
        (
            {"listener.name.inside.plain.sasl.jaas.config": f"{SCRAM} required secret=1;"},
            "has ScramLoginModule, but PLAIN needs PlainLoginModule",
        ),
        (
            {"listener.name.inside.plain.sasl.jaas.config": "secret"},
            "must start with a login module",
        ),
    ],
)
def test_errors_are_one_line_without_secrets(texts: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        listeners({**BASE, **texts})
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_inter_broker_credentials_come_from_the_listener() -> None:
    settings = parse_broker_settings(BASE)
    found = inter_broker_credentials(settings, "INSIDE")
    assert (found.mechanism, found.user, found.password) == ("PLAIN", "b1", "broker-secret")
    assert "broker-secret" not in repr(found)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "must be one of"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "is not enabled on listener INSIDE",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            "set listener.name.inside.scram-sha-512.sasl.jaas.config",
        ),
        (
            {"listener.name.inside.plain.sasl.jaas.config": f"{PLAIN} required user_a=b;"},
            "SASL needs",
        ),
    ],
)
def test_missing_inter_broker_credentials_are_reported(texts: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why):
        inter_broker_credentials(parse_broker_settings({**BASE, **texts}), "INSIDE")
