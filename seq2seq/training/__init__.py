"""Training: the only floor that knows Lightning and Hydra."""
