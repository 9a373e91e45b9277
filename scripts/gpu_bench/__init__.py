"""The parts of scripts/gpu.py: each is a file with `run(device, tiny)`, a generator of rows."""
