"""Regular expressions over topic names, in the syntax of RE2 (NG-9).

Not Python's `re`: that one backtracks, so a client could stop a broker with a few characters, and
its syntax is another. A name has at most 249 characters out of 65, which makes an automaton of our
own short, and as fast as is needed.
"""
