"""Arguments in, tables out: one small file per command, and no decisions."""
