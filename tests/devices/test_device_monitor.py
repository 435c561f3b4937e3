"""Watching devices while a run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from gpu_dispatch.devices import Device, DeviceMonitor, Vendor, inventory
from gpu_dispatch.devices.monitor import ProcessMemory


@pytest.fixture
def gpus(fake_nvml, tree):
    return inventory({}, root=str(tree)).devices


@pytest.fixture
def monitor(tree):
    with DeviceMonitor(root=str(tree)) as watching:
        yield watching


def test_memory_and_utilisation_are_those_of_the_moment(gpus, monitor, fake_nvml):
    fake_nvml.set(1, used=1000, util=10)
    assert monitor.memory(gpus[1]) == (1000 << 20, 40960 << 20)
    assert monitor.utilisation(gpus[1]) == 10
    fake_nvml.set(1, used=2000, util=95)
    assert monitor.memory(gpus[1]) == (2000 << 20, 40960 << 20)
    assert monitor.utilisation(gpus[1]) == 95


def test_memory_is_seen_to_be_free_when_its_process_is_killed(gpus, monitor, nvml_support):
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        nvml_support.claim(0, 7000, holder.pid)
        assert monitor.memory(gpus[0]) == (7000 << 20, 40960 << 20)
        assert monitor.processes(gpus[0]) == (ProcessMemory(holder.pid, 7000 << 20),)
        assert monitor.processes(gpus[1]) == ()
    finally:
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
        assert monitor.memory(gpus[0]) == (0, 40960 << 20)
        assert monitor.processes(gpus[0]) == ()
        holder.communicate()


def test_memory_that_a_dead_process_keeps_is_seen_too(gpus, monitor, fake_nvml, nvml_support):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    nvml_support.claim(0, 100, gone.pid)
    fake_nvml.keep_memory_of_the_dead()
    assert monitor.memory(gpus[0]) == (100 << 20, 40960 << 20)
    fake_nvml.keep_memory_of_the_dead(False)
    assert monitor.memory(gpus[0]) == (0, 40960 << 20)


def test_several_processes_on_one_gpu_add_up(gpus, monitor, nvml_support):
    nvml_support.claim(2, 300)
    nvml_support.claim(2, 500, os.getppid())
    assert monitor.memory(gpus[2])[0] == 800 << 20
    assert {process.pid for process in monitor.processes(gpus[2])} == {os.getpid(), os.getppid()}
    nvml_support.claim(2, 0)
    assert monitor.memory(gpus[2])[0] == 500 << 20


def test_a_gpu_that_is_lost_while_running_is_noticed(gpus, monitor, fake_nvml):
    assert not monitor.is_lost(gpus[2])
    fake_nvml.lose(2)
    assert monitor.is_lost(gpus[2])
    assert not monitor.is_lost(gpus[1])
    assert monitor.memory(gpus[2]) is None
    assert monitor.utilisation(gpus[2]) is None
    assert monitor.processes(gpus[2]) is None


def test_a_gpu_that_was_lost_before_the_first_question_is_noticed(gpus, monitor, fake_nvml):
    fake_nvml.lose(2)
    assert monitor.is_lost(gpus[2])


def test_a_mig_instance_that_was_removed_is_gone(fake_nvml, monitor, tree):
    fake_nvml.split(1, 2)
    second = inventory({}, root=str(tree)).devices[3]
    fake_nvml.split(1, 1)
    assert monitor.is_lost(second)


def test_a_mig_instance_has_its_own_memory(fake_nvml, nvml_support, monitor, tree):
    fake_nvml.split(1, 2)
    _, gpu, first, second, *_ = inventory({}, root=str(tree)).devices
    nvml_support.claim("1.1", 100)
    assert monitor.memory(first) == (0, 4864 << 20)
    assert monitor.memory(second) == (100 << 20, 4864 << 20)
    assert monitor.memory(gpu) == (100 << 20, 40960 << 20)
    assert monitor.utilisation(first) is None


def test_what_is_not_known_is_none_and_nothing_raises(tree, monitor):
    for vendor in Vendor:
        device = Device(vendor, 0, "somewhere else", uuid="GPU-0")
        assert monitor.memory(device) is None
        assert monitor.utilisation(device) is None
        assert monitor.processes(device) is None
        assert not monitor.is_lost(device)


def test_a_driver_that_does_not_start_knows_nothing(fake_nvml, gpus, monitor):
    fake_nvml.fail_to_start(9)
    assert monitor.memory(gpus[0]) is None
    assert not monitor.is_lost(gpus[0])


def test_a_gpu_without_a_uuid_is_asked_by_its_number(gpus, monitor, fake_nvml):
    fake_nvml.set(3, used=77)
    assert monitor.memory(replace(gpus[3], uuid=None)) == (77 << 20, 40960 << 20)


def test_amd_is_watched_through_sysfs(tree, monitor):
    tree.amd("0000:03:00.0")
    tree.compute_nodes(128)
    (card,) = inventory({}, root=str(tree)).devices
    assert monitor.memory(card) == (1 << 30, 64 << 30)
    tree.write("sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_used", 2 << 30)
    assert monitor.memory(card) == (2 << 30, 64 << 30)
    assert monitor.utilisation(card) == 37


def test_many_threads_may_ask_at_once_and_the_driver_is_opened_once(gpus, tree, monkeypatch):
    import pynvml

    opened = []
    init = pynvml.nvmlInit
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (opened.append(1), init()))
    with DeviceMonitor(root=str(tree)) as monitor:
        assert not opened  # nothing before the first question
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.extend(monitor.memory(gpus[i % 4]) for i in range(50)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert opened == [1]
    assert answers == [(0, 40960 << 20)] * 400


def test_it_can_be_asked_again_after_it_was_closed(gpus, monitor):
    assert monitor.memory(gpus[0])
    monitor.close()
    monitor.close()
    assert monitor.memory(gpus[0])
