"""What every layer may use: settings, locks, interrupts, floating-point modes, reproducers."""
