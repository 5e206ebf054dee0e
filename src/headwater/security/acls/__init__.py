"""Access control lists: who may do what to what, as rules that are kept with the cluster."""
