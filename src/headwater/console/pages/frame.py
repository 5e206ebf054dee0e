"""Layout of every page, and the error page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.console.actions import DONE
from headwater.console.console_errors import ConsoleError
from headwater.console.html import Child, Html, document, link_to, tag
from headwater.console.request_guard import TOKEN_FIELD

Crumb = tuple[str, str]
"""Text and link of a breadcrumb."""

_SECTIONS: Final = (
    ("Overview", "", "o"),
    ("Topics", "topics", "t"),
    ("Groups", "groups", "g"),
    ("Brokers", "brokers", "b"),
    ("Pipelines", "pipelines", "i"),
    ("Transactions", "transactions", "x"),
    ("Security", "acls", "a"),
    ("Schemas", "schemas", "s"),
)
_KEYS: Final = (
    ("/", "search"),
    ("o t g b", "go to overview, topics, groups, brokers"),
    ("i x a s", "go to pipelines, transactions, security, schemas"),
    ("n p", "next page, previous page"),
    ("?", "this help"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Context of a page besides its data."""

    bootstrap: str
    token: str
    is_read_only: bool
    has_registry: bool
    query: Mapping[str, str]
    version: str
    theme: str | None = None
    """light or dark, if the user chose one."""
    problem: str | None = None
    """Why a form of this page failed; it is shown again with the values in `given`."""
    answer: str | None = None
    """What a form that only asks something was told; it is shown again too."""
    given: Mapping[str, str] = field(default_factory=dict)

    def page(
        self,
        title: str,
        *children: Child,
        place: str,
        crumbs: Sequence[Crumb] = (),
        is_live: bool = False,
        live_by_default: bool = False,
    ) -> Html:
        """A whole document. `is_live` offers to reload it every few seconds."""
        return document(
            tag(
                "html",
                self._head(title),
                self._body(title, children, place, crumbs, is_live, live_by_default),
                lang="en",
                data_theme=self.theme,
            ),
        )

    def form(self, action: str, *children: Child, class_: str | None = None) -> Html:
        """A form that changes something."""
        token = tag("input", type="hidden", name=TOKEN_FIELD, value=self.token)
        return tag("form", token, children, method="post", action=action, class_=class_)

    def typed(self, name: str) -> str:
        """The value that the user typed into a form that failed."""
        return self.given.get(name, "")

    def asset(self, name: str) -> str:
        return link_to("assets", self.version, name)

    def _head(self, title: str) -> Html:
        return tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title} · Headwater"),
            tag("link", rel="icon", type="image/svg+xml", href=self.asset("icon.svg")),
            tag("link", rel="stylesheet", href=self.asset("console.css")),
            tag("script", src=self.asset("console.js"), defer=True),
        )

    def _body(
        self,
        title: str,
        children: Child,
        place: str,
        crumbs: Sequence[Crumb],
        is_live: bool,
        live_by_default: bool,
    ) -> Html:
        steps = [tag("a", name, href=where) for name, where in crumbs]
        live = tag(
            "label",
            tag(
                "input",
                type="checkbox",
                id="live",
                data_default="on" if live_by_default else None,
            ),
            " Live",
            class_="live needs-script",
            title="Reload this page every five seconds",
        )
        heading = tag(
            "header",
            tag(
                "nav",
                [(step, tag("span", "/", aria_hidden="true")) for step in steps],
                class_="crumbs",
                aria_label="Breadcrumbs",
            )
            if steps
            else None,
            tag("div", tag("h1", title), live if is_live else None, class_="title"),
        )
        return tag(
            "body",
            tag("a", "Skip to content", href="#main", class_="skip"),
            self._side(place),
            tag("main", heading, self._notice(), children, id="main", tabindex="-1"),
            _help(),
        )

    def _side(self, place: str) -> Html:
        links = [
            tag(
                "a",
                name,
                href=f"/{path}",
                aria_current="page" if path == place else None,
                data_key=key,
            )
            for name, path, key in _SECTIONS
            if path != "schemas" or self.has_registry
        ]
        mark = tag("img", src=self.asset("icon.svg"), alt="", width=24, height=24)
        return tag(
            "aside",
            tag(
                "a",
                mark,
                tag("span", "Headwater"),
                href="/",
                class_="brand",
                # Small screens show the mark only.
                aria_label="Headwater",
            ),
            tag("nav", links, aria_label="Pages"),
            tag(
                "div",
                tag(
                    "span",
                    self.bootstrap.replace(",", ", "),
                    class_="where",
                    title="Bootstrap servers",
                ),
                tag("span", "read only", class_="badge") if self.is_read_only else None,
                tag(
                    "button",
                    "Colours",
                    type="button",
                    id="theme",
                    class_="theme needs-script",
                    title="Switch between the browser's colours, light and dark",
                ),
                class_="foot",
            ),
        )

    def _notice(self) -> Html | None:
        if self.problem is not None:
            return tag("p", self.problem, class_="notice bad", role="alert")
        if self.answer is not None:
            return tag("p", self.answer, class_="notice good", role="status")
        text = DONE.get(self.query.get("done", ""))
        return tag("p", text, class_="notice good", role="status") if text else None


def failure_page(problem: ConsoleError, frame: Frame) -> Html:
    if problem.is_unreachable:
        return _unreachable(problem, frame)
    title = {403: "Not allowed", 404: "Not found"}.get(problem.status, "Error")
    return frame.page(
        title,
        tag("p", problem.message, class_="notice bad", role="alert"),
        tag("p", tag("a", "Go to the overview", href="/"), class_="actions"),
        place="none",
    )


def _unreachable(problem: ConsoleError, frame: Frame) -> Html:
    return frame.page(
        "No broker answers",
        tag("p", problem.message, class_="notice bad", role="alert"),
        tag(
            "p", "The console's bootstrap servers: ", tag("code", frame.bootstrap), ". To fix this:"
        ),
        tag(
            "ul",
            tag(
                "li",
                "If no broker is running there, ",
                tag("code", "headwater start"),
                " starts one.",
            ),
            tag(
                "li",
                "If it runs elsewhere, start the console with ",
                tag("code", "--bootstrap HOST:PORT"),
                ".",
            ),
            tag(
                "li",
                "If it requires TLS or a password, pass client settings with ",
                tag("code", "--command-config FILE"),
                ".",
            ),
        ),
        tag("p", tag("a", "Try again", href="", class_="button"), class_="actions"),
        place="none",
        is_live=True,
    )


def _help() -> Html:
    rows = [tag("tr", tag("td", tag("kbd", keys)), tag("td", what)) for keys, what in _KEYS]
    return tag(
        "dialog",
        tag("h2", "Keyboard shortcuts"),
        tag("table", rows),
        tag("form", tag("button", "Close"), method="dialog"),
        id="keys",
    )
