"""The platforms of short files."""

SECTIONS = {"ome": "inference_service", "aibrix": "storm_service", "mindie-motor": "motor_service"}
"""Platform -> the section of a short file about its service."""
PLATFORMS = tuple(SECTIONS)
