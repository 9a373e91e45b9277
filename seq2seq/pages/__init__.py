"""Pictures and pages: attention maps, learning curves, reports."""
