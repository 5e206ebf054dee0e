"""`headwater doctor`: check a machine and a cluster for known problems.

`machine_facts` and `cluster_facts` collect, `machine_checks` and `cluster_checks` decide. Start
with `doctor`.
"""
