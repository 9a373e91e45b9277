"""Training, the only package that uses Lightning and Hydra."""
