"""Logs of a broker: directories, checkpoints, deletion, moves.

Start with `log_manager`, then `log_directory` (one directory with its lock and checkpoints).
`log_dir_moves` implements AlterReplicaLogDirs (KIP-113).
"""
