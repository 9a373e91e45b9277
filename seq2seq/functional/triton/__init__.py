"""Kernels for GPUs, in Triton, each tested against the readable torch that computes the same.

Nothing of this package but `launch` is imported before a kernel is asked for, so that nothing else
needs Triton. All of them also run without a GPU, slowly, in Triton's interpreter
(TRITON_INTERPRET=1): there they are tested.
"""
