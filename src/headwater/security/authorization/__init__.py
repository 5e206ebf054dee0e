"""Authorization by ACLs: bindings, patterns, filters and the authorizer.

Start with `authorizer` (the interface, its operations and resource types). `acl_authorizer`
implements it with `AclIndex`, which finds the bindings that match a resource.
"""
