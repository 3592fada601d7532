"""What several commands use: access to a cluster, its state, findings, tables, output."""
