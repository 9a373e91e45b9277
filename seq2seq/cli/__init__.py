"""The command line: it parses, calls, prints; the work is done on the floors below."""
