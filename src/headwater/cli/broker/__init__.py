"""`headwater start`, `cluster` and `zookeeper`: run processes on this machine."""
