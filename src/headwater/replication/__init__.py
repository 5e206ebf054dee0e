"""One partition across machines: leader and follower rules, ISR, high watermark.

Today every partition has one replica, this broker, which leads it.
"""
