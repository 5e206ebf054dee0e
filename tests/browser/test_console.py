"""The web console in Chromium: navigation, forms, live tail, and untrusted records.

`make test-browser`; skipped without a browser.
"""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headwater.client import Admin, NewTopic, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.browser.chromium import Browser, browser, missing
from tests.console_process import TIMEOUT_S, ConsoleProcess

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

OWNED = "document.documentElement.dataset.owned=1"
HOSTILE = f"""'"><script>{OWNED}</script><img src=x onerror="{OWNED}"><svg onload="{OWNED}">"""
LONG = "a.topic.with.a.name.as.long.as.a.name.may.be." * 3
WIDTHS = (360, 768, 1280)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        topics = ("tea", "hostile", "empty", LONG)
        admin.create_topics([NewTopic(name=name, partitions=2) for name in topics])
        admin.create_topics([NewTopic(name=f"bulk-{each}", partitions=1) for each in range(60)])
        raw = HOSTILE.encode()
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(120):
                producer.send("tea", b'{"cup": %d}' % number, key=b"%d" % number)
            producer.send("hostile", raw, key=raw, headers=[(HOSTILE, raw)])
            producer.send("hostile", b"x" * 50_000, key=b"k" * 2_000)
        admin.alter_group_offsets(HOSTILE, {TopicPartition("tea", 0): 1})
        yield admin


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker, admin: Admin) -> Iterator[ConsoleProcess]:
    del admin
    with ConsoleProcess(broker.bootstrap_servers) as console:
        yield console


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as window:
        yield window


PAGES = [
    "/",
    "/brokers",
    "/brokers/0",
    "/brokers/0/configs?search=log",
    "/brokers/0/loggers",
    "/reassignments",
    "/quorum",
    "/acls",
    "/users",
    "/quotas",
    "/pipelines",
    "/messages",
    "/messages?topic0=tea&topic1=hostile&limit=50",
    "/topics",
    f"/topics/{LONG}",
    "/topics/tea",
    "/topics/tea/configs?edit=retention.ms",
    "/topics/hostile/records",
    "/topics/hostile/records/0/0",
    "/topics/hostile/tail",
    "/topics/empty/records",
    "/topics/tea/groups",
    "/groups",
    f"/groups/{quote(HOSTILE, safe='')}",
    f"/groups/{quote(HOSTILE, safe='')}/reset?to=latest",
    "/transactions",
    f"/topics?search={quote(HOSTILE)}",
    f"/{quote(HOSTILE)}",
]


@pytest.mark.parametrize("path", PAGES)
def test_pages_run_no_untrusted_script_and_fit_every_screen(
    console: ConsoleProcess, window: Browser, path: str
) -> None:
    window.logged_errors()
    for width in WIDTHS:
        window.narrow(width)
        window.open(console.url + path)
        window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert window.run("return document.documentElement.dataset.owned") is None
        assert window.run(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), f"{path} is wider than {width} pixels"
        unlabelled = window.run(
            """return Array.from(document.querySelectorAll("main :is(input, select, textarea)"))
            .filter((each) => each.type !== "hidden" && !each.labels.length && !each.ariaLabel)
            .map((each) => each.outerHTML)"""
        )
        assert unlabelled == []
    assert [each for each in window.logged_errors() if "404" not in each] == []


def test_live_tail_shows_hostile_records_as_text(
    console: ConsoleProcess, window: Browser, broker: EmbeddedBroker
) -> None:
    window.open(f"{console.url}/topics/hostile/tail")
    window.wait_for("document.getElementById('tail-state').textContent.startsWith('following')")
    raw = HOSTILE.encode()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("hostile", raw, key=raw, headers=[(HOSTILE, raw)]).result(TIMEOUT_S)
    window.wait_for("document.querySelectorAll('#tail li').length === 1")
    window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert HOSTILE in window.text("#tail")
    assert window.run("return document.documentElement.dataset.owned") is None
    assert window.run("return document.querySelectorAll('#tail img, #tail svg').length") == 0


def test_topic_is_created_and_deleted(
    console: ConsoleProcess, window: Browser, admin: Admin
) -> None:
    window.narrow(1280)
    window.open(f"{console.url}/topics")
    window.click("details.panel > summary")
    window.type("input[name=name]", "by-hand")
    window.type("input[name=partitions]", "2")
    window.click("details.panel button.primary")
    window.wait_for("location.pathname === '/topics/by-hand'")
    assert "The topic was created." in window.text()
    deletion = "details:has(form[action='/topics/by-hand/delete'])"
    window.click(f"{deletion} > summary")
    assert window.run(f'return document.querySelector("{deletion} button.danger").disabled')
    window.type(f"{deletion} input[name=confirm]", "by-hand")
    window.click(f"{deletion} button.danger")
    window.wait_for("location.pathname === '/topics'")
    assert "The topic was deleted." in window.text()
    assert "by-hand" not in admin.list_topics()


def test_keyboard_shortcuts_open_pages(console: ConsoleProcess, window: Browser) -> None:
    window.open(console.url)
    window.press("t")
    window.wait_for("location.pathname === '/topics'")
    window.press("n")
    window.wait_for("new URLSearchParams(location.search).get('page') === '2'")
    window.press("p")
    window.wait_for("new URLSearchParams(location.search).get('page') === '1'")
    window.press("/")
    window.wait_for("document.activeElement.id === 'search'")
    window.press("t", "e", "a", "\ue007")
    window.wait_for("new URLSearchParams(location.search).get('search') === 'tea'")
    window.press("?")
    window.wait_for("document.getElementById('keys').open")


def test_live_page_reloads_by_itself(
    console: ConsoleProcess, window: Browser, admin: Admin
) -> None:
    window.open(f"{console.url}/topics?search=surprise")
    assert "No topic matches" in window.text()
    window.click("#live")
    admin.create_topic("surprise", partitions=1)
    window.wait_for("document.querySelector('main table')?.textContent.includes('surprise')")
    window.click("#live")


def test_live_page_shows_the_first_topic_of_a_cluster(window: Browser) -> None:
    """The form to create it is open, but the user has not opened it, so reloading is not paused."""
    with EmbeddedBroker() as broker, ConsoleProcess(broker.bootstrap_servers) as console:
        window.open(f"{console.url}/topics")
        assert "There are no topics yet." in window.text()
        assert window.run("return document.querySelector('details.panel').open")
        window.click("#live")
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("surprise", partitions=1)
        window.wait_for("document.querySelector('main table')?.textContent.includes('surprise')")
        window.click("#live")


def test_times_have_the_local_time_as_tooltip(console: ConsoleProcess, window: Browser) -> None:
    window.command("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    try:
        window.open(f"{console.url}/topics/tea/records?limit=10")
        title = window.run("return document.querySelector('main time').title")
        assert title.startswith("UTC; local ")
        assert "5:30" in title
    finally:
        window.command("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_tabs_of_a_topic_fit_a_phone(console: ConsoleProcess, window: Browser) -> None:
    window.narrow(390)
    window.open(f"{console.url}/topics/tea")
    assert window.run(
        "const tabs = document.querySelector('.tabs'); return tabs.scrollWidth <= tabs.clientWidth"
    )


def test_rejected_form_is_open_and_filled(console: ConsoleProcess, window: Browser) -> None:
    window.narrow(1280)
    window.open(f"{console.url}/topics/tea/records")
    window.click("details.panel > summary")
    window.type("details.panel textarea[name=value]", "{half")
    window.run("document.querySelector('details.panel select[name=value_format]').value = 'json'")
    window.click("details.panel button.primary")
    window.wait_for("document.querySelector('.notice.bad') !== null")
    assert "Invalid JSON" in window.text(".notice.bad")
    value = "return document.querySelector('details.panel[open] textarea[name=value]').value"
    assert window.run(value) == "{half"


def test_pages_follow_the_systems_dark_mode(console: ConsoleProcess, window: Browser) -> None:
    shades = []
    for scheme in ("light", "dark"):
        window.emulate("prefers-color-scheme", scheme)
        window.open(console.url)
        shades.append(window.run("return getComputedStyle(document.body).backgroundColor"))
    assert shades[0] != shades[1]


def test_everything_but_the_tail_works_without_scripts(
    console: ConsoleProcess, window: Browser
) -> None:
    window.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        window.open(f"{console.url}/topics/tea/records?limit=10")
        window.click("a[rel=next]")
        assert "before=" in window.url
        window.open(f"{console.url}/topics/tea/tail")
        assert "The live tail needs JavaScript." in window.text()
    finally:
        window.command("Emulation.setScriptExecutionDisabled", {"value": False})
