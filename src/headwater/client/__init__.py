"""Producer, consumer and admin: pure cores with an asyncio face and a blocking face.

Empty until the client is built; the room exists so that its place in the stack is checked.
"""
