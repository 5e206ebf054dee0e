"""The messages, one module per API, each with one request and one response.

A handler imports its two shapes from here and never sees a version. A module is loaded when its
API is first used, since each costs a millisecond or three. Field names and defaults are those of
Kafka 4.1's message definitions; kio, which is generated from these, judges them in the tests. One
exception: an `error_message` that nobody sets is null, as Kafka's own handlers leave it.

A class called `...UpToVn` is how the versions up to n put it. It knows how to become the message
that handlers see (`lift`) and how to be made from it (`lower`).
"""
