"""Client quotas (KIP-13, 546, 599, 612): entities, limits, rates, buckets.

Start with `client_quota_manager`; `quota_limits` finds the quota that applies to a client.
`controller_mutation_quota` limits topic and partition changes.
"""
