"""The options of a command line, checked: the plan of a run."""
