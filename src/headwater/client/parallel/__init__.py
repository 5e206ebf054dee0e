"""Many workers on one partition, with order kept for each key; and handling each record once."""
