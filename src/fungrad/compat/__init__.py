"""The interfaces of other systems, for programs written for them."""
