"""JSON Schema: parser, canonical form and compatibility rules.

Start with `parser`, which builds the tree of `schema`; `compatibility` compares two trees.
`arrays`, `objects` and `scalars` hold the rules for each kind of value.
"""
