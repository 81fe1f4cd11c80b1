"""The tiles, packs, order and threads that a nest may have, and the choice among them."""
