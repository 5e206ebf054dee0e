"""ACLs, SCRAM users, and SASL requests on authenticated connections.

Start with `create_acls`; `acl_messages` translates between messages and bindings.
"""
