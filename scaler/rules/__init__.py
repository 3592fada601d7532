"""The rule of a service: its document, its meaning and its faults. No I/O."""
