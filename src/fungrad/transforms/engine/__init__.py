"""The engines of the transforms, one Trace each: reverse mode, forward mode, batching."""
