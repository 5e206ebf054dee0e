"""The admin client, blocking and for asyncio.

Start with `aio_admin`; each `..._calls` module has the calls of one area.
`admin_calls` chooses the broker that a request goes to.
"""
