"""Floor 6: Graph to Graph, the same numbers in fewer equations. Knows the IR; knows no backend."""
