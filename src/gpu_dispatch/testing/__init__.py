"""Workers and tools for trying things out: nothing here needs a GPU."""
