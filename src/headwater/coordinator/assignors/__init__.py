"""Server-side assignors (KIP-848): range and uniform.

Start with `assignor_spec`, the input and output of an assignor. `uniform_heterogeneous_assignor`
handles members with different subscriptions.
"""
