"""A Ray of our own for one measurement, kept from the network and from the user's home.

Ray's dashboard process asks cloud-metadata addresses even when usage statistics are off, unless it finds a cluster
configuration; ``ray.init`` writes a token into the home folder; and a cluster that is already running would be joined.
So: a home of its own with an empty configuration, statistics off and pointed nowhere, a local address, and, where the
system permits it, a network namespace with nothing but loopback. Enter it before anything imports ray.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


@contextmanager
def ray_session(workers: int) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="bench-ray-", ignore_cleanup_errors=True) as home:
        Path(home, "ray_bootstrap_config.yaml").write_text("{}\n", encoding="utf-8")
        os.environ.update(
            HOME=home,
            RAY_USAGE_STATS_ENABLED="0",
            RAY_USAGE_STATS_REPORT_URL="http://127.0.0.1:9/",
            RAY_AUTH_MODE="disabled",
            RAY_DATA_DISABLE_PROGRESS_BARS="1",
        )
        try:
            leave_the_network()
        except OSError:
            pass  # not permitted here: the other layers have to do

        import ray

        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=str(Path(home, "ray")),
        )
        try:
            yield
        finally:
            ray.shutdown()


def leave_the_network() -> None:
    """This process and its children keep only loopback from here on. Raises OSError where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        (flags,) = struct.unpack_from("h", fcntl.ioctl(probe, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0"))
