"""One partition across machines: leader and follower rules, ISR, high watermark.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
