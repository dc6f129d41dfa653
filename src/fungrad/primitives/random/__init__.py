"""Random bits, and samples computed from them by rejection."""
