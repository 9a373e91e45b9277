"""Checks the options of a run, and turns them into its plan."""
