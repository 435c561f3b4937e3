"""A machine with NVIDIA GPUs, for tests: the fake driver library, its state, and what processes hold on it.

    gpus = FakeNvml(tmp_path, library)      # library = build(some_folder), once per session
    gpus.set(0, used=5000, util=80)         # MiB, per cent; seen by the next question, in every process
    gpus.lose(2)                            # GPU 2 answers GPU_IS_LOST
    subprocess.run(..., env=gpus.env())     # a process that finds these GPUs

Code that plays a worker calls ``claim(gpu, mib)``; the memory is free again when that process ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"


def build(folder: Path) -> Path:
    """Compile the library into ``folder``. Without a C compiler this fails, loudly: a skipped test proves nothing."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError(
            f"no C compiler (cc, gcc, clang) on PATH: {SOURCE.name} cannot be built, and these tests need it"
        )
    library = folder / LIBRARY
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{LIBRARY}", "-o", str(library)]
    done = subprocess.run([*command, str(SOURCE)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{SOURCE.name} does not compile:\n{done.stderr}")
    return library


def load(library: Path) -> None:
    """Make this very process find the library: whoever opens that name from now on gets what is loaded already.

    It stays loaded; without FAKE_NVML_DIR in the environment it answers as if it were not there.
    """
    ctypes.CDLL(str(library))


def gpu_uuid(index: int) -> str:
    return f"GPU-{0xA000 + index:04x}5e1f-0000-4000-8000-{index:012d}"


def mig_uuid(index: int, instance: int) -> str:
    return f"MIG-{index:02x}{instance:02x}5e1f-0000-5000-8000-{instance:012d}"


class FakeNvml:
    """One made-up machine: a folder with its state, in the environment variable FAKE_NVML_DIR."""

    def __init__(self, folder: Path, library: Path, *, gpus: int = 4) -> None:
        self.folder = folder
        self.library = library
        self._lines: dict[tuple[str, str], float] = {}
        (folder / "claims").mkdir(parents=True)
        self._write("gpus", "-", gpus)

    def set(self, device: int | str, **values: float) -> None:
        """``used`` and ``total`` (MiB), ``util`` (%), ``temp`` (°C), ``power`` (mW) of GPU 0 or instance "1.0"."""
        for key, value in values.items():
            self._write(key, str(device), value)

    def lose(self, index: int, lost: bool = True) -> None:
        self._write("lost", str(index), lost)

    def split(self, index: int, instances: int) -> None:
        """Put a GPU into MIG mode, with so many instances."""
        self._write("mig", str(index), instances)

    def fail_to_start(self, code: int) -> None:
        """What nvmlInit answers: 9 driver not loaded, 18 version mismatch."""
        self._write("init", "-", code)

    def keep_memory_of_the_dead(self, keep: bool = True) -> None:
        self._write("keep", "-", keep)

    def env(self) -> dict[str, str]:
        """The environment of a process on this machine, without any mask."""
        inherited = {name: value for name, value in os.environ.items() if not name.endswith("_VISIBLE_DEVICES")}
        search = os.pathsep.join(filter(None, [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH")]))
        return {**inherited, "LD_LIBRARY_PATH": search, "FAKE_NVML_DIR": str(self.folder)}

    def _write(self, key: str, device: str, value: float) -> None:
        self._lines[key, device] = value
        text = "".join(f"{k} {d} {float(v):.0f}\n" for (k, d), v in self._lines.items())
        draft = self.folder / "state.new"
        draft.write_text(text)
        draft.replace(self.folder / "state")  # at once: a reader in another process never sees half of it


def claim(device: int | str, mib: float, pid: int | None = None) -> None:
    """Say that this process holds so much memory of a device, in a process that has FAKE_NVML_DIR. 0 gives it back."""
    file = Path(os.environ["FAKE_NVML_DIR"], "claims", f"{device}-{pid or os.getpid()}")
    if mib:
        file.write_text(f"{mib:g}")
    else:
        file.unlink(missing_ok=True)
