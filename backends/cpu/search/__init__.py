"""The search: enumerates the tilings of a nest, prunes and ranks them by the cost model, and chooses one."""
