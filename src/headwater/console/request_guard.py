"""The token that the console's own forms carry, beside the checks of every HTTP port."""

import hmac
from typing import Final

from headwater.console.console_errors import ConsoleError

TOKEN_FIELD: Final = "token"


def check_token(given: str, token: str) -> None:
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise ConsoleError(
            403,
            "This form is from before the console was restarted. Load the page again, and then do "
            "it.",
        )
