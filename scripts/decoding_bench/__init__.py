"""The engines that are compared, their processes, and what is made of the figures."""
