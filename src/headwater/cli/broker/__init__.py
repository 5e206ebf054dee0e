"""`headwater start`, `cluster`, `zookeeper`: processes on this machine."""
