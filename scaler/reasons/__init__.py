"""Reasons and warnings: one row each, with its words in both languages. Pure."""
