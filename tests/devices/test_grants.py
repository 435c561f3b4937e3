"""What each worker gets: the mask, the device's name inside, the threads and cores."""

from __future__ import annotations

import os
import pickle

import pytest

from gpu_dispatch.devices import Vendor, cores, resolve
from gpu_dispatch.errors import DeviceSpecError

MASK = "CUDA_VISIBLE_DEVICES"


@pytest.fixture
def bare(tree):
    """resolve() on a machine without GPUs."""
    return lambda spec, environ=None, **options: resolve(spec, environ or {}, root=str(tree), **options)


@pytest.fixture
def four_gpus(fake_nvml, tree):
    """resolve() on a machine with four NVIDIA GPUs."""
    return lambda spec, environ=None, **options: resolve(spec, environ or {}, root=str(tree), **options)


def told(call, *arguments, **options):
    with pytest.raises(DeviceSpecError) as refusal:
        call(*arguments, **options)
    return str(refusal.value)


def summary(grants):
    return [(grant.gpu_id, grant.env.get(MASK), grant.device) for grant in grants]


# Without GPUs


def test_ids_in_a_list_need_not_exist(bare):
    assert summary(bare([0, 7])) == [(0, "0", "cpu"), (7, "7", "cpu")]


def test_typed_ids_need_not_exist_where_there_is_no_gpu_at_all(bare):
    assert summary(bare("0,2-3")) == [(0, "0", "cpu"), (2, "2", "cpu"), (3, "3", "cpu")]


@pytest.mark.parametrize(
    ("environ", "masks"),
    [
        ({MASK: "4,5"}, [{MASK: "4"}, {MASK: "5"}]),
        ({MASK: "GPU-a,GPU-b"}, [{MASK: "GPU-a"}, {MASK: "GPU-b"}]),
        ({MASK: "MIG-a,MIG-b"}, [{MASK: "MIG-a"}, {MASK: "MIG-b"}]),
        ({MASK: "4,4,5"}, [{MASK: "4"}, {MASK: "5"}]),
        ({MASK: "4"}, [{MASK: "4"}, {MASK: ""}]),
        ({MASK: ""}, [{MASK: ""}, {MASK: ""}]),
        ({MASK: "-1"}, [{MASK: ""}, {MASK: ""}]),
        ({"HIP_VISIBLE_DEVICES": "2"}, [{"HIP_VISIBLE_DEVICES": "2"}, {"HIP_VISIBLE_DEVICES": "-1"}]),
        ({"ZE_AFFINITY_MASK": "2"}, [{"ZE_AFFINITY_MASK": "2"}, {"ONEAPI_DEVICE_SELECTOR": "*:cpu"}]),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, [{"HIP_VISIBLE_DEVICES": "2"}, {"HIP_VISIBLE_DEVICES": "3"}]),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, [{"ROCR_VISIBLE_DEVICES": "2"}, {"ROCR_VISIBLE_DEVICES": "3"}]),
        ({"ZE_AFFINITY_MASK": "2,3"}, [{"ZE_AFFINITY_MASK": "2"}, {"ZE_AFFINITY_MASK": "3"}]),
        (
            {MASK: "4,5", "ROCR_VISIBLE_DEVICES": "4,5"},
            [{MASK: "4", "ROCR_VISIBLE_DEVICES": "4"}, {MASK: "5", "ROCR_VISIBLE_DEVICES": "5"}],
        ),
    ],
)
def test_ids_count_within_a_mask_that_is_set_even_where_no_driver_answers(bare, environ, masks):
    grants = bare([0, 1], environ)
    for grant, mask in zip(grants, masks, strict=True):
        assert {name: grant.env[name] for name in mask} == mask
        assert set(grant.env) - set(cores.thread_caps(1, {})) == {*mask, MASK, "CUDA_DEVICE_ORDER"}


def test_a_uuid_in_the_mask_is_believed_where_no_driver_answers(bare):
    assert summary(bare("GPU-bb", {MASK: "GPU-aa11,GPU-bb22"})) == [("GPU-bb", "GPU-bb22", "cpu")]


def test_cpu_workers_see_no_gpu(bare):
    grants = bare("cpu:3")
    assert summary(grants) == [(0, "", "cpu"), (1, "", "cpu"), (2, "", "cpu")]
    assert grants[2].label == "CPU worker 2"


def test_auto_without_a_gpu_says_so_and_what_to_write_instead(bare):
    message = told(bare, "auto")
    assert "there is no GPU" in message
    assert '"cpu:N"' in message


@pytest.mark.parametrize("spec", [[], [True], [0, 0], "GPU-ff", "nonsense"])
def test_every_refusal_ends_with_what_is_there(bare, spec):
    assert "No GPU was found on this machine" in told(bare, spec)


def test_a_driver_that_is_not_loaded_is_named_in_the_refusal(four_gpus, fake_nvml):
    fake_nvml.fail_to_start(9)
    assert "Driver Not Loaded" in told(four_gpus, "auto")
    assert summary(four_gpus([0])) == [(0, "0", "cpu")]


# With GPUs


def test_auto_takes_every_gpu(four_gpus):
    assert summary(four_gpus("auto")) == [(i, str(i), "cuda:0") for i in range(4)]


def test_the_label_tells_which_gpu_it_is(four_gpus):
    assert four_gpus([2])[0].label == "GPU 2 (Fake A100-SXM4-40GB, GPU-a0025e1f…)"
    assert four_gpus([0], {MASK: "2"})[0].label == (
        "GPU 0 (Fake A100-SXM4-40GB, GPU-a0025e1f…, number 2 of this machine)"
    )
    assert "not found" in four_gpus([9])[0].label


def test_ids_beyond_the_last_gpu_run_on_the_cpu_when_they_come_in_a_list(four_gpus):
    assert summary(four_gpus([3, 4])) == [(3, "3", "cuda:0"), (4, "4", "cpu")]


def test_a_typed_id_that_does_not_exist_is_refused_with_the_list_of_those_that_do(four_gpus):
    message = told(four_gpus, "2-4")
    assert "there is no GPU 4" in message
    assert "0: Fake A100-SXM4-40GB, GPU-a0005e1f…, 1: " in message


def test_a_mask_that_is_set_decides_what_auto_and_numbers_mean(four_gpus, nvml_support):
    third = nvml_support.gpu_uuid(3)
    environ = {MASK: f"{third},1"}
    assert summary(four_gpus("auto", environ)) == [(0, third, "cuda:0"), (1, "1", "cuda:0")]
    assert [grant.physical[0].index for grant in four_gpus([1, 0], environ)] == [1, 3]


def test_a_mask_with_a_repetition_and_a_number_too_high_leaves_the_good_ones(four_gpus, nvml_support):
    first = nvml_support.gpu_uuid(1)
    grants = four_gpus("auto", {MASK: f"{first},2,2,9"})
    assert summary(grants) == [(0, first, "cuda:0"), (1, "2", "cuda:0")]


def test_a_gpu_that_the_mask_hides_is_never_handed_out(four_gpus, nvml_support):
    message = told(four_gpus, [2], {MASK: "2,3"})
    assert "CUDA_VISIBLE_DEVICES=2,3 hides GPU 2: numbers count what a mask shows" in message
    assert "Usable here (under CUDA_VISIBLE_DEVICES=2,3): 0: " in message
    hidden = nvml_support.gpu_uuid(0)
    assert f"hides '{hidden}'" in told(four_gpus, hidden, {MASK: "2,3"})
    assert summary(four_gpus([8], {MASK: "2,3"})) == [(8, "", "cpu")]


def test_auto_under_a_mask_that_hides_everything_names_the_mask(four_gpus):
    assert "CUDA_VISIBLE_DEVICES= hides all" in told(four_gpus, "auto", {MASK: ""})
    assert "no device 9" in told(four_gpus, "auto", {MASK: "9"})


@pytest.mark.parametrize("mask", ["", "-1"])
def test_a_mask_that_is_there_to_have_no_gpu_makes_a_machine_without_gpus(four_gpus, mask):
    assert summary(four_gpus([0, 1], {MASK: mask})) == [(0, "", "cpu"), (1, "", "cpu")]
    assert summary(four_gpus("0-1", {MASK: mask})) == [(0, "", "cpu"), (1, "", "cpu")]


def test_a_job_that_was_given_no_gpu_is_not_run_on_the_cpu_unawares(four_gpus):
    assert "NoDevFiles: invalid: Slurm writes this" in told(four_gpus, [0], {MASK: "NoDevFiles"})


def test_uuids_may_be_abbreviated_and_the_mask_holds_them_in_full(four_gpus, nvml_support):
    assert summary(four_gpus("GPU-a002")) == [("GPU-a002", nvml_support.gpu_uuid(2), "cuda:0")]
    assert "ambiguous" in told(four_gpus, "GPU-a0")
    assert "unknown UUID 'GPU-ffff'" in told(four_gpus, "GPU-ffff")


def test_the_same_gpu_by_number_and_by_uuid_is_a_duplicate(four_gpus):
    assert "1 and GPU-a001 are the same device" in told(four_gpus, [1, "GPU-a001"])


def test_a_lost_gpu_is_passed_over_by_auto_and_named(four_gpus, fake_nvml):
    fake_nvml.lose(1)
    assert [grant.gpu_id for grant in four_gpus("auto")] == [0, 2, 3]
    assert four_gpus([1])[0].physical[0].problem == "lost"


def test_a_gpu_in_mig_mode_is_used_through_its_instances(four_gpus, fake_nvml, nvml_support):
    fake_nvml.split(1, 2)
    one, two = nvml_support.mig_uuid(1, 0), nvml_support.mig_uuid(1, 1)
    assert summary(four_gpus("auto")) == [
        (0, "0", "cuda:0"),
        (one, one, "cuda:0"),
        (two, two, "cuda:0"),
        (2, "2", "cuda:0"),
        (3, "3", "cuda:0"),
    ]
    assert summary(four_gpus("MIG-0101")) == [("MIG-0101", two, "cuda:0")]
    assert summary(four_gpus([1], {MASK: f"{two},{one}"})) == [(1, one, "cuda:0")]


def test_a_process_cannot_have_two_mig_instances(four_gpus, fake_nvml):
    fake_nvml.split(1, 2)
    assert "only one MIG instance" in told(four_gpus, "MIG-0100,MIG-0101", gpus_per_worker=2)
    assert "only one MIG instance" in told(four_gpus, "MIG-0100", isolate=False)


# Several workers per GPU, several GPUs per worker


def test_every_gpu_gets_its_first_worker_before_any_gets_its_second(four_gpus):
    assert [grant.gpu_id for grant in four_gpus([0, 1], workers_per_gpu=2)] == [0, 1, 0, 1]


def test_a_worker_with_two_gpus_sees_both(four_gpus):
    first, second = four_gpus([0, 1, 2, 3], gpus_per_worker=2)
    assert (first.gpu_id, first.env[MASK], first.device) == (0, "0,1", "cuda:0")
    assert (second.gpu_id, second.env[MASK], len(second.physical)) == (2, "2,3", 2)
    assert "GPU 2" in second.label
    assert "GPU 3" in second.label


def test_the_mask_of_several_gpus_is_all_uuids_or_all_numbers(four_gpus, nvml_support):
    both = f"{nvml_support.gpu_uuid(1)},{nvml_support.gpu_uuid(2)}"  # CUDA would see only the first of a mixture
    assert four_gpus(["GPU-a001", 2], gpus_per_worker=2)[0].env[MASK] == both
    assert four_gpus("auto", {MASK: "GPU-a001,2"}, gpus_per_worker=2)[0].env[MASK] == both


def test_groups_of_gpus_work_where_there_are_none(bare):
    assert summary(bare([0, 1], {MASK: "4,5"}, gpus_per_worker=2)) == [(0, "4,5", "cpu")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gpus_per_worker": 2}, "3 devices cannot be shared out evenly"),
        ({"gpus_per_worker": 3, "workers_per_gpu": 2}, "exclude each other"),
        ({"workers_per_gpu": 0}, "workers_per_gpu must be a whole number of at least 1, got 0"),
        ({"gpus_per_worker": True}, "got True"),
    ],
)
def test_counts_that_make_no_sense(bare, options, said):
    assert said in told(bare, [0, 1, 2], **options)


def test_without_isolation_there_is_no_mask_and_the_number_is_the_parents(four_gpus, bare):
    (grant,) = four_gpus([1], {MASK: "3,2"}, isolate=False)
    assert MASK not in grant.env
    assert grant.device == "cuda:1"
    assert grant.physical[0].index == 2
    assert MASK not in four_gpus("cpu:1", isolate=False)[0].env


# Other vendors


def test_amd_cards_are_cuda_to_the_frameworks_and_masked_by_hip(tree, bare):
    tree.amd("0000:03:00.0", unique_id="ab1")
    tree.amd("0000:83:00.0", unique_id="ab2")
    tree.compute_nodes(128, 129)
    grants = bare("auto")
    assert [(g.gpu_id, g.env["HIP_VISIBLE_DEVICES"], g.device) for g in grants] == [
        (0, "0", "cuda:0"),
        (1, "1", "cuda:0"),
    ]
    assert MASK not in grants[0].env
    assert bare("GPU-ab2")[0].env["HIP_VISIBLE_DEVICES"] == "1"
    hidden = bare("cpu:1")[0].env
    assert (hidden["HIP_VISIBLE_DEVICES"], hidden[MASK]) == ("-1", "-1")


def test_intel_cards_are_xpu(tree, bare):
    name = tree.card("0000:4d:00.0", vendor="0x8086")
    tree.write(f"sys/class/drm/{name}/lmem_total_bytes", 16 << 30)
    (grant,) = bare("auto")
    assert (grant.device, grant.env["ZE_AFFINITY_MASK"]) == ("xpu:0", "0")
    assert bare("cpu:1")[0].env["ONEAPI_DEVICE_SELECTOR"] == "*:cpu"


def test_two_tiles_of_an_intel_card_are_two_devices(tree, bare):
    tree.card("0000:4d:00.0", vendor="0x8086", **{"tile0/id": 0})
    grants = bare([0, 1], {"ZE_AFFINITY_MASK": "0.0,0.1"})
    assert [grant.env["ZE_AFFINITY_MASK"] for grant in grants] == ["0.0", "0.1"]


def test_integrated_graphics_are_not_taken_for_a_gpu_to_compute_on(tree, bare):
    tree.card("0000:00:02.0", vendor="0x8086")
    assert "integrated graphics" in told(bare, "auto")


def test_beside_an_nvidia_gpu_integrated_graphics_do_not_matter(tree, four_gpus):
    tree.card("0000:00:02.0", vendor="0x8086")
    tree.amd("0000:05:00.0")
    for environ in ({}, {"ZE_AFFINITY_MASK": "0"}):  # Slurm sets the masks of all vendors
        assert {grant.physical[0].vendor for grant in four_gpus("auto", environ)} == {Vendor.NVIDIA}


def test_on_a_machine_with_two_vendors_the_mask_that_is_set_decides(tree, four_gpus):
    tree.amd("0000:05:00.0")
    tree.compute_nodes(128)
    (grant,) = four_gpus("auto", {"HIP_VISIBLE_DEVICES": "0"})
    assert grant.physical[0].vendor is Vendor.AMD


# Threads and cores


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: frozenset(range(8)))


@pytest.mark.parametrize(
    ("spec", "options", "share"),
    [
        ([0], {}, "8"),
        ([0, 1], {}, "4"),
        ([0, 1, 2], {}, "2"),
        ([0, 1], {"workers_per_gpu": 2}, "2"),
        (range(20), {}, "1"),
        ([0, 1, 2, 3], {"gpus_per_worker": 2}, "4"),
        ("cpu:4", {}, "2"),
    ],
)
def test_workers_share_the_cores_between_them(bare, eight_cores, spec, options, share):
    for grant in bare(spec, **options):
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
            assert grant.env[name] == share
        assert grant.env["VECLIB_MAXIMUM_THREADS"] == share


def test_thread_counts_that_the_user_has_set_stay(bare, eight_cores):
    env = bare([0, 1], {"MKL_NUM_THREADS": "7"})[0].env
    assert "MKL_NUM_THREADS" not in env
    assert env["OMP_NUM_THREADS"] == "4"


def test_libraries_that_follow_omp_are_not_overruled_when_the_user_set_omp(bare, eight_cores):
    env = bare([0, 1], {"OMP_NUM_THREADS": "7"})[0].env
    assert not {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"} & set(env)
    assert env["VECLIB_MAXIMUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("files", "budget"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "6400000 100000"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_the_cpu_quota_of_a_container_counts(tree, eight_cores, files, budget):
    for name, content in files.items():
        tree.write(f"sys/fs/cgroup/{name}", content)
    assert cores.core_budget(str(tree)) == budget


def test_a_worker_keeps_to_the_cores_next_to_its_gpu(tree, four_gpus, eight_cores):
    tree.node(0, "0-3")
    tree.node(1, "4-7,64-67")
    tree.pci_node("0000:3a:00.0", 0)
    tree.pci_node("0000:3b:00.0", 1)
    tree.pci_node("0000:3c:00.0", -1)
    near, far, unknown, untold = four_gpus("auto")
    assert near.cpus == {0, 1, 2, 3}
    assert far.cpus == {4, 5, 6, 7}
    assert unknown.cpus is None
    assert untold.cpus is None
    assert four_gpus([0, 1], gpus_per_worker=2)[0].cpus is None  # both nodes: that is everything
    assert four_gpus([0])[0].env["OMP_NUM_THREADS"] == "4"  # not eight threads on four cores


def test_a_node_without_usable_cores_is_not_a_place_to_be(tree, four_gpus, eight_cores):
    tree.node(1, "32-63")
    tree.pci_node("0000:3a:00.0", 1)
    assert four_gpus([0])[0].cpus is None


def test_the_hash_seed_and_the_parents_environment_are_left_alone(four_gpus):
    before = dict(os.environ)
    for spec in ("auto", [0], "cpu:2"):
        assert all("PYTHONHASHSEED" not in grant.env for grant in four_gpus(spec))
    assert dict(os.environ) == before


def test_numbers_always_count_by_pci_bus(bare, four_gpus):
    assert bare([0])[0].env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert four_gpus([0], isolate=False)[0].env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_grant_travels(four_gpus):
    (grant,) = four_gpus([0])
    assert pickle.loads(pickle.dumps(grant)) == grant
    assert hash(grant) == hash(pickle.loads(pickle.dumps(grant)))
