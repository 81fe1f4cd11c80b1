"""The code that all backends of GPUs share: from programs to launches.  It is no backend itself."""
