"""The tuner: finds options that are faster than the model's, by measuring (docs/tuning.md)."""
