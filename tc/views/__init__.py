"""A compile to look at: a page with all of its stages, and pictures."""
