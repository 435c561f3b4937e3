"""A peer that is gone is no reason to die."""

from __future__ import annotations

from pathlib import Path

from scripts import run_script


def test_sending_to_a_dead_worker_does_not_kill_a_script_that_wants_sigpipe(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import signal
        from gpu_dispatch.transport.channel import Channel, channel_pair

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        ours, theirs = channel_pair()
        theirs.close()
        channel = Channel(ours)
        channel.send("anybody there?")
        channel.close()
        print("alive")
        """,
    )

    assert done.stdout == "alive\n", done
