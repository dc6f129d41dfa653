"""Looks at values inside of transforms: prints, callbacks, a trap for NaN."""
