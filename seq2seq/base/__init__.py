"""The lowest layer: errors, registries, plug-ins, durable files, progress."""
