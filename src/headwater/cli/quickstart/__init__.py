"""`headwater quickstart`: a tour that shows each command and runs it.

Start with `quickstart`. `tour` has the steps, `tour_processes` runs their commands.
"""
