"""The rule of a service: its document, its meaning and what is wrong with it. No I/O."""
