"""How much everybody may do: quotas of users, clients and addresses (QU-1 to QU-6).

Pure: time comes in with each call, and nobody is slowed down here. Whoever asks is told for how
long, and sees to it (`headwater.broker.throttling`).
"""
