"""The rule of a service: its document, its meaning and its findings. No I/O."""
