"""Who gets which partitions: the assignors that run in the coordinator (KIP-848).

An assignor is a function of the members and the sizes of the topics. It knows no group and no
epochs, and gives the same answer to the same question in every process.
"""
