"""Check the token of the console's own forms (CSRF protection)."""

import hmac
from typing import Final

from headwater.console.console_errors import ConsoleError

TOKEN_FIELD: Final = "token"


def check_token(given: str, token: str) -> None:
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise ConsoleError(
            403,
            "This form was loaded before the console restarted. Reload the page and try again.",
        )
