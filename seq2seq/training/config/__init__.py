"""What a command line says, checked: the plan of a run."""
