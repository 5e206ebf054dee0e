"""Pages: ACLs, SCRAM users and quotas."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    empty,
    labelled,
    number_text,
    page_tabs,
    pager,
    search_form,
    section,
    select,
    table,
    text_input,
)
from headwater.console.views.security import (
    DEFAULT_ENTITY,
    AclList,
    AclRow,
    QuotaList,
    QuotaRow,
    UserList,
    UserRow,
)

TABS = (("ACLs", "/acls"), ("Users", "/users"), ("Quotas", "/quotas"))
RESOURCE_TYPES = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
OPERATIONS = (
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


def acls_page(page_data: AclList, frame: Frame) -> Html:
    rows = page_data.acls.rows
    shown: Child = (
        table(
            [
                ("Principal", ""),
                ("Permission", ""),
                ("Operation", ""),
                ("Resource", ""),
                ("Host", "wide"),
                ("", ""),
            ],
            [_acl(each, frame) for each in rows],
            label="ACLs",
        ),
        pager(page_data.acls, ["acls"], frame.query),
    )
    return _page(
        "ACLs",
        frame,
        search=page_data.search,
        label="Search principals and resources",
        problem=page_data.problem,
        shown=shown if rows else None,
        nothing="There are no ACLs. Only super users are authorized, unless "
        "allow.everyone.if.no.acl.found is true.",
        change=_new_acl(frame),
    )


def _acl(row: AclRow, frame: Frame) -> tuple[Child, ...]:
    kind = "good" if row.permission == "Allow" else "bad"
    prefix = badge("prefix") if row.pattern_type == "Prefixed" else None
    fields = {
        "principal": row.principal,
        "permission": row.permission,
        "operation": row.operation,
        "resource_type": row.resource_type,
        "resource_name": row.resource_name,
        "pattern_type": row.pattern_type,
        "host": row.host,
    }
    deletion = frame.form(
        "/acls/delete",
        [tag("input", type="hidden", name=name, value=value) for name, value in fields.items()],
        tag(
            "button",
            "Delete",
            class_="danger",
            aria_label=f"Delete {row.permission} {row.operation} of {row.principal} "
            f"on {row.resource_type} {row.resource_name}",
        ),
    )
    return (
        tag("span", row.principal, class_="name"),
        badge(row.permission, kind),
        row.operation,
        (f"{row.resource_type} ", tag("code", row.resource_name, class_="name"), " ", prefix),
        row.host,
        None if frame.is_read_only else deletion,
    )


def _new_acl(frame: Frame) -> Html:
    return _panel(
        "Add an ACL",
        frame,
        "/acls",
        _typed("Principal", frame, "principal", hint="such as User:alice, or User:*"),
        _chosen("Permission", frame, "permission", ("Allow", "Deny")),
        _chosen("Operation", frame, "operation", OPERATIONS),
        _chosen("Resource type", frame, "resource_type", RESOURCE_TYPES),
        _typed("Resource", frame, "resource_name", hint="a name, a prefix, or * for all"),
        _chosen("Pattern", frame, "pattern_type", ("Literal", "Prefixed")),
        _typed("Host", frame, "host", hint="empty: any host"),
        button="Add",
    )


def users_page(page_data: UserList, frame: Frame) -> Html:
    rows = page_data.users.rows
    shown: Child = (
        table(
            [("User", ""), ("Credentials", ""), ("", "")],
            [_user(each, frame) for each in rows],
            label="Users",
        ),
        pager(page_data.users, ["users"], frame.query),
    )
    return _page(
        "Users",
        frame,
        search=page_data.search,
        label="Search users",
        problem=page_data.problem,
        shown=shown if rows else None,
        nothing="There are no SCRAM users. The cluster stores no users of other mechanisms.",
        change=_panel(
            "Add a user or change a password",
            frame,
            "/users",
            _typed("User", frame, "name"),
            _chosen("Mechanism", frame, "mechanism", MECHANISMS),
            labelled(
                "Password",
                tag(
                    "input",
                    type="password",
                    name="password",
                    required=True,
                    autocomplete="new-password",
                ),
            ),
            button="Save",
        ),
    )


def _user(row: UserRow, frame: Frame) -> tuple[Child, ...]:
    credentials = [
        (badge(each.name), f" {number_text(each.iterations)} iterations ")
        for each in row.mechanisms
    ]
    deletions = [
        frame.form(
            "/users/delete",
            tag("input", type="hidden", name="name", value=row.name),
            tag("input", type="hidden", name="mechanism", value=each.name),
            tag(
                "button",
                f"Delete {each.name}",
                class_="danger",
                aria_label=f"Delete {each.name} of {row.name}",
            ),
        )
        for each in row.mechanisms
    ]
    return (
        tag("span", row.name, class_="name"),
        credentials,
        None if frame.is_read_only else tag("div", deletions, class_="row"),
    )


def quotas_page(page_data: QuotaList, frame: Frame) -> Html:
    rows = page_data.entities.rows
    shown: Child = (
        table(
            [("User", ""), ("Client id", ""), ("IP address", "wide"), ("Quotas", "")],
            [_quota(each) for each in rows],
            label="Quotas",
        ),
        pager(page_data.entities, ["quotas"], frame.query),
    )
    return _page(
        "Quotas",
        frame,
        search=page_data.search,
        label="Search users, client ids and addresses",
        problem=page_data.problem,
        shown=shown if rows else None,
        nothing="There are no quotas: no client is throttled.",
        change=_panel(
            "Set or remove a quota",
            frame,
            "/quotas",
            _typed("User", frame, "user", hint=f"{DEFAULT_ENTITY}: users without their own quota"),
            _typed("Client id", frame, "client_id"),
            _typed("IP address", frame, "ip", hint="alone, for connection_creation_rate only"),
            _chosen("Quota", frame, "quota", QUOTAS),
            _typed("Value", frame, "value", hint="bytes or requests per second; empty removes it"),
            button="Save",
        ),
    )


def _quota(row: QuotaRow) -> tuple[Child, ...]:
    values = [
        tag("li", tag("code", each.name), f" {each.value:,.10g}".replace(",", " "))
        for each in row.quotas
    ]
    return (*map(_part, (row.user, row.client_id, row.ip)), tag("ul", values, class_="plain"))


def _part(name: str | None) -> Child:
    if name is None:
        return tag("span", "any", class_="quiet")
    return badge("default") if name == DEFAULT_ENTITY else tag("span", name, class_="name")


def _page(
    title: str,
    frame: Frame,
    *,
    search: str,
    label: str,
    problem: str | None,
    shown: Child,
    nothing: str,
    change: Html,
) -> Html:
    if problem is not None:
        content: Child = empty(f"The cluster does not list them: {problem}")
    elif shown is None:
        content = empty(f"Nothing matches '{search}'." if search else nothing)
    else:
        content = shown
    return frame.page(
        "Security",
        page_tabs(TABS, title, label="Pages on security"),
        section(
            title,
            search_form(link_to(title.lower()), search, label) if problem is None else None,
            content,
        ),
        None if frame.is_read_only or problem is not None else change,
        place="acls",
    )


def _panel(title: str, frame: Frame, action: str, *fields: Child, button: str) -> Html:
    has_failed = bool(frame.given)
    return tag(
        "details",
        tag("summary", title),
        frame.form(action, fields, tag("button", button, class_="primary"), class_="stack"),
        class_="panel",
        open=has_failed,
        data_open=has_failed,
    )


def _typed(title: str, frame: Frame, name: str, *, hint: str | None = None) -> Html:
    return labelled(title, text_input(name, frame.typed(name)), hint=hint)


def _chosen(title: str, frame: Frame, name: str, options: tuple[str, ...]) -> Html:
    pairs = [(each, each) for each in options]
    return labelled(title, select(name, pairs, frame.typed(name) or options[0]))
