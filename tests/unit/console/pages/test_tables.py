"""Tables of the console."""

from headwater.console.pages.parts import table


def test_a_column_without_a_name_has_no_empty_heading() -> None:
    html = str(table([("Name", ""), ("", "wide")], [["orders", "button"]], label="Topics"))
    assert '<th scope="col">Name</th><td class="wide"></td>' in html
