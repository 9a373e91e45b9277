"""The lowest floor: errors, registries, plug-ins, durable files, progress."""
