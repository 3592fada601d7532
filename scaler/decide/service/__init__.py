"""One service: from its instances to a demand."""
