"""A folder of audio over every GPU of the machine: five classes, usable alone or together.

    LauncherOrchestrator
    ├── GPUDetector         which GPUs are here, and may be used
    ├── ResourceAllocator   which files there are, and in what order they are best done
    ├── ProcessSpawner      the worker processes, on one Dispatcher
    └── LoadBalancer        what became of the files, and how fast

What happens to one file is the business of ``gpu_dispatch.transcription``.
"""

from __future__ import annotations

from gpu_dispatch.multigpu.gpu_detector import GPUDetector
from gpu_dispatch.multigpu.launcher_orchestrator import LauncherOrchestrator
from gpu_dispatch.multigpu.load_balancer import LoadBalancer
from gpu_dispatch.multigpu.process_spawner import ProcessSpawner
from gpu_dispatch.multigpu.resource_allocator import ResourceAllocator

__all__ = ["GPUDetector", "LauncherOrchestrator", "LoadBalancer", "ProcessSpawner", "ResourceAllocator"]
