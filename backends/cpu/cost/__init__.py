"""What a tiled nest costs on a machine: arithmetic on access relations, nothing is run."""
