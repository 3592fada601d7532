"""How a played scenario is shown: as text, on a screen, as a picture, and as a cluster that kubectl can look at."""
