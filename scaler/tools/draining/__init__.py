"""What a drain of nodes would do to services; nothing is drained here."""
