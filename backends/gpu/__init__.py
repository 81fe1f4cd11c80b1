"""What the backends of GPUs share: from programs to launches.  No backend itself."""
