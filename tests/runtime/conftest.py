from __future__ import annotations

import sys
from pathlib import Path

from optional import WHY_NO_TORCH, OptionalTests

ROOT = Path(__file__).parents[2]
for folder in (ROOT, ROOT / "examples"):  # what is not in the package, and is tested all the same
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

_torch = OptionalTests("torch", WHY_NO_TORCH, "test_torch_model.py")
collect_ignore = _torch.ignored
pytest_terminal_summary = _torch.summary
