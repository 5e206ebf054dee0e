"""The admin client, blocking and for asyncio.

Start with `aio_admin`; each `..._calls` module has the methods of one area.
`admin_calls` sends requests to the right brokers and retries them.
"""
