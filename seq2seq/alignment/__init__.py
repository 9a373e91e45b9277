"""Word alignments: links, reading them from attention, and choosing how."""
