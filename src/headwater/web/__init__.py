"""HTTP faces: schema registry, REST, console. Talks to brokers only through the client.

Empty until the web faces are built; the room exists so that its place in the stack is checked.
"""
