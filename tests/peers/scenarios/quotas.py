"""AlterClientQuotas and DescribeClientQuotas (KIP-546).

The quotas are far above what any scenario needs, and removed at the end.
"""

from collections.abc import Iterable, Mapping

from headwater.protocol.messages import alter_client_quotas as alter
from headwater.protocol.messages import describe_client_quotas as describe
from headwater.security.quotas.quota_entities import QuotaKey
from tests.peers.lab import Lab

EXACT, DEFAULT, ANY = 0, 1, 2
LARGE = 1e12

Entity = Mapping[str, str | None]

ENTITIES: tuple[Entity, ...] = (
    {"user": "alice"},
    {"user": None},
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"client-id": "app"},
    {"client-id": "with space/and~more*"},
    {"client-id": None},
)
ADDRESSES: tuple[Entity, ...] = ({"ip": "203.0.113.7"}, {"ip": None}, {"ip": "2001:db8::7"})


def _entry(entity: Entity, ops: Mapping[str, float | None]) -> alter.EntryData:
    return alter.EntryData(
        entity=tuple(
            alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ),
        ops=tuple(
            alter.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops.items()
        ),
    )


def _change(
    *entries: alter.EntryData, validate_only: bool = False
) -> alter.AlterClientQuotasRequest:
    return alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def _filter(
    *components: tuple[str, int, str | None], strict: bool = False
) -> describe.DescribeClientQuotasRequest:
    return describe.DescribeClientQuotasRequest(
        components=tuple(
            describe.ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ),
        strict=strict,
    )


def _await_entries(lab: Lab, count: int) -> None:
    """Wait until every broker knows the change."""
    lab.until(
        _filter(),
        describe.DescribeClientQuotasResponse,
        lambda answer: len(answer.entries or ()) == count,
    )


def _set_all(lab: Lab) -> None:
    entries = [_entry(each, {"producer_byte_rate": LARGE}) for each in ENTITIES]
    entries += [_entry(each, {"connection_creation_rate": 1e9}) for each in ADDRESSES]
    lab.show("set", _change(*entries), unordered=True)
    _await_entries(lab, len(entries))


def _take_all(lab: Lab, entities: Iterable[Entity] = (*ENTITIES, *ADDRESSES)) -> None:
    keys = [str(key) for key in QuotaKey]
    gone = [_entry(each, dict.fromkeys(keys)) for each in entities]
    lab.show("take away", _change(*gone), unordered=True)
    _await_entries(lab, 0)


def filters(lab: Lab) -> None:
    _set_all(lab)
    for strict in (False, True):
        word = "strictly" if strict else "loosely"
        asked: dict[str, tuple[tuple[str, int, str | None], ...]] = {
            "everything": (),
            "a user": (("user", EXACT, "alice"),),
            "default users": (("user", DEFAULT, None),),
            "any user": (("user", ANY, None),),
            "a client": (("client-id", EXACT, "app"),),
            "a client with a long name": (("client-id", EXACT, "with space/and~more*"),),
            "a client of a user": (("user", EXACT, "alice"), ("client-id", EXACT, "app")),
            "default clients of a user": (("user", EXACT, "alice"), ("client-id", DEFAULT, None)),
            "any of both": (("user", ANY, None), ("client-id", ANY, None)),
            "an address": (("ip", EXACT, "203.0.113.7"),),
            "any address": (("ip", ANY, None),),
            "unknown user": (("user", EXACT, "unknown"),),
        }
        for label, components in asked.items():
            for version in (0, 1):
                request = _filter(*components, strict=strict)
                lab.show(f"{label}, {word}, version {version}", request, version, unordered=True)
    _take_all(lab)


def filters_that_make_no_sense(lab: Lab) -> None:
    lab.show("no type", _filter(("", ANY, None)))
    lab.show("an unknown type", _filter(("group", ANY, None)))
    lab.show("a type twice", _filter(("user", ANY, None), ("user", EXACT, "a")))
    lab.show("exactly nothing", _filter(("user", EXACT, None)))
    lab.show("the default of a name", _filter(("user", DEFAULT, "a")))
    lab.show("any of a name", _filter(("user", ANY, "a")))
    lab.show("an unknown way", _filter(("user", 3, None)))
    lab.show("an address and a user", _filter(("user", ANY, None), ("ip", ANY, None)))


def changes(lab: Lab) -> None:
    bob: Entity = {"user": "bob"}
    lab.show(
        "several at once",
        _change(
            _entry(
                bob,
                {
                    "producer_byte_rate": LARGE,
                    "request_percentage": 1234.5,
                    "controller_mutation_rate": 1e6,
                },
            )
        ),
    )
    _await_entries(lab, 1)
    lab.show("as they are then", _filter(), unordered=True)
    lab.show(
        "only judged",
        _change(_entry({"user": "carol"}, {"producer_byte_rate": LARGE}), validate_only=True),
    )
    lab.show("taken away again", _change(_entry(bob, {"request_percentage": None})))
    lab.until(
        _filter(),
        describe.DescribeClientQuotasResponse,
        lambda answer: len((answer.entries or ())[0].values) == 2,
    )
    lab.show("what is left", _filter(), unordered=True)
    lab.show("what was not there is taken away", _change(_entry(bob, {"consumer_byte_rate": None})))
    lab.show(
        "of a user without quotas",
        _change(_entry({"user": "unknown"}, {"consumer_byte_rate": None})),
    )
    lab.show(
        "one good, one bad",
        _change(
            _entry({"user": "dave"}, {"consumer_byte_rate": LARGE}),
            _entry({"user": "erin"}, {"consumer_byte_rate": 1.5}),
        ),
        unordered=True,
    )
    _await_entries(lab, 2)
    _take_all(lab, ({"user": "bob"}, {"user": "dave"}))


def changes_that_make_no_sense(lab: Lab) -> None:
    rate = {"producer_byte_rate": 1.0}
    asked: dict[str, tuple[Entity, Mapping[str, float | None]]] = {
        "no entity": ({}, rate),
        "an unknown type": ({"group": "g"}, rate),
        "an empty name": ({"user": ""}, rate),
        "an address of a user": ({"ip": "203.0.113.7", "user": "a"}, rate),
        "an address that is none": ({"ip": "not an address"}, {"connection_creation_rate": 1.0}),
        "bytes of an address": ({"ip": "203.0.113.7"}, rate),
        "connections of a user": ({"user": "a"}, {"connection_creation_rate": 1.0}),
        "an unknown key": ({"user": "a"}, {"nonsense": 1.0}),
        "zero": ({"user": "a"}, {"producer_byte_rate": 0.0}),
        "less than zero": ({"user": "a"}, {"request_percentage": -1.0}),
        "a part of a byte": ({"user": "a"}, {"producer_byte_rate": 0.5}),
        "too much": ({"user": "a"}, {"producer_byte_rate": 1e30}),
        "too many connections": ({"ip": "203.0.113.7"}, {"connection_creation_rate": 1e10}),
    }
    for label, (entity, ops) in asked.items():
        lab.show(label, _change(_entry(entity, ops)), unordered=True)
