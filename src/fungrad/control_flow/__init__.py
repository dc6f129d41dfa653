"""The primitives that hold Graphs: call, switch, scan, while_loop, and their reverse mode."""
