"""Pictures and HTML pages: attention maps, learning curves and reports."""
