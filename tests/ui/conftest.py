"""Makes the helpers beside the tests importable: pytest's importlib mode leaves sys.path alone."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
