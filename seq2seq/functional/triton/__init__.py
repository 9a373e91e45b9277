"""GPU kernels in Triton, each tested against readable torch code that computes the same.

Until a kernel is used, only `launch` is imported, so that Triton is not needed otherwise. All
kernels also run without a GPU, slowly, in Triton's interpreter (TRITON_INTERPRET=1), which is how
the tests run them.
"""
