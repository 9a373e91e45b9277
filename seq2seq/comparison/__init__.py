"""Compare runs that differ in their attention."""
