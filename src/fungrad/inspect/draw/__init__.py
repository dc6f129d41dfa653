"""Pictures of Graphs."""
