"""to_source: a Graph as a module of plain NumPy that runs without fungrad."""
