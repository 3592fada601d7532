"""Output of a played scenario: as text, on a screen, as a picture, and as a cluster for kubectl."""
