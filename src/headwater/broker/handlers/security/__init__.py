"""ACLs, SCRAM users, and SASL requests outside a login.

Start with `create_acls`; `acl_messages` translates between messages and bindings.
"""
