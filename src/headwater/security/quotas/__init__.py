"""Client quotas (KIP-13, KIP-546, KIP-599, KIP-612): entities, limits, rates, token buckets.

Start with `client_quota_manager`; `quota_limits` finds the quota that applies to a client.
`controller_mutation_quota` limits topic and partition changes.
"""
