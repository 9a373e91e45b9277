"""Runs that differ in their attention, side by side."""
