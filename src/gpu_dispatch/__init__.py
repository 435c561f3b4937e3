"""gpu_dispatch: keep every GPU of a machine busy with a class and an iterable."""
