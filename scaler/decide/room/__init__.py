"""Where pods fit: needs, nodes and a working copy to promise room on. Values in, values out; knows no services."""
