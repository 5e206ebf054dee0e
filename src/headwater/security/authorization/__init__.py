"""Authorization by ACLs: bindings, patterns, filters, and the authorizer.

Start with `authorizer` (the interface and its operations); `acl_authorizer` implements it.
`acl_index` finds the bindings that match a resource.
"""
