"""What the user asked for: the rule document, its meaning and its faults. No I/O."""
