"""``python -m gpu_dispatch`` is ``gpu-dispatch``."""

from __future__ import annotations

import sys

from gpu_dispatch.cli import main

if __name__ == "__main__":  # a worker process may import this file while it looks for the main module
    sys.exit(main())
