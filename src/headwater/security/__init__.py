"""Authentication, authorization and quotas, as pure code.

Start with `authorization.authorizer` (the check that handlers call), `authentication` for SASL
mechanisms and certificate principals, `quotas` for rates and limits.
"""
