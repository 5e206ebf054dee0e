"""Limits: connections, quotas, throttles, idle connections, in-flight bytes.

Start with `connection_quotas` (max.connections and related settings). `connection_creation_rate`
delays connections above a rate, `inflight_bytes` is queued.max.request.bytes.
"""
