"""All paths of the REST API."""

from typing import Final

from headwater.rest.v2 import routes as v2
from headwater.rest.v3 import routes as v3

ROUTES: Final = (*v2.ROUTES, *v3.ROUTES)
