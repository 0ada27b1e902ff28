"""FSDP 2 through Accelerate: each process keeps a part of the weights; what is written and read is a normal model.

Accelerate gives FSDP to accelerators only, and does plain data parallelism on a CPU without a word. torch itself can
shard on a CPU, so that the tests tell Accelerate that it does, and all the rest is as on GPUs.
"""

import functools
import inspect
import os
import re
import time

import accelerate
import pytest
import torch
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from safetensors.torch import load_file
from training_runs import ACCELERATE, TINY, TRAIN, Run, assert_same_outcome, free_port, has_reached, write_pairs

from tinyseq import TinySeqForConditionalGeneration
from tinyseq.training import distributed
from tinyseq.translation import Translator

pytestmark = pytest.mark.skipif(
    "fsdp_version" not in inspect.signature(FullyShardedDataParallelPlugin).parameters,
    reason="this Accelerate knows FSDP 1 only",
)
LAYERS = "TinySeqEncoderLayer,TinySeqDecoderLayer"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_pairs(folder / "test.tsv", 10, "test")
    return write_pairs(folder / "train.tsv", 300)


def options(corpus, folder, *more):
    return [
        "--train", corpus, "--valid_pairs", 20, "--test", corpus.with_name("test.tsv"), *TINY, "--max_steps", 9,
        "--log_steps", 1, "--save_steps", 2, "--eval_steps", 5, "--gradient_accumulation_steps", 2,
        "--log_batches", "--resume", "--output_dir", folder, *more,
    ]  # fmt: skip


def shard(**plugin):
    """Makes Accelerate use FSDP on a CPU."""

    class Sharding(accelerate.Accelerator):
        def __init__(self, **keywords):
            super().__init__(**keywords)
            self.state.distributed_type = DistributedType.FSDP
            accelerate.PartialState._shared_state["distributed_type"] = DistributedType.FSDP  # as Accelerate does
            self.state.fsdp_plugin = FullyShardedDataParallelPlugin(
                auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=LAYERS.split(","), **plugin
            )

    distributed.Accelerator = Sharding


def check_it_is_sharded(**plugin):
    """The same, and says on stdout how many weights this process has of all."""
    shard(**plugin)
    prepare = distributed.Accelerator.prepare

    def prepared(self, model, optimizer):
        model, optimizer = prepare(self, model, optimizer)
        here = sum(p.to_local().numel() for p in model.parameters())
        print(f"{here} of {sum(p.numel() for p in model.parameters())} weights")
        for group in optimizer.param_groups:
            assert all(isinstance(p, torch.distributed.tensor.DTensor) for p in group["params"])
        return model, optimizer

    distributed.Accelerator.prepare = prepared


def forked(arguments, output, **plugin):
    sabotage = functools.partial(check_it_is_sharded, **plugin)
    return Run.forked(arguments, output, 2, {rank: ([], None, sabotage) for rank in (0, 1)})


@pytest.mark.parametrize("cpu_ram_efficient_loading", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_sharded_training_learns_what_data_parallel_training_does_and_resumes_exactly(
    corpus, tmp_path, cpu_ram_efficient_loading
):
    plugin = {"fsdp_version": 2, "cpu_ram_efficient_loading": cpu_ram_efficient_loading}
    run = forked(options(corpus, tmp_path / "sharded"), tmp_path / "sharded.out", **plugin)
    assert run.end() == [0, 0], run.text
    assert "on 2 processes" in run.text
    parts = re.findall(r"^(\d+) of (\d+) weights$", run.text, re.MULTILINE)
    assert sum(int(here) for here, _ in parts) == int(parts[0][1])
    assert all(int(here) < 0.6 * int(whole) for here, whole in parts)

    plain = Run.forked(options(corpus, tmp_path / "plain"), tmp_path / "plain.out", 2)
    assert plain.end() == [0, 0], plain.text
    ours, theirs = (load_file(tmp_path / name / "last" / "model.safetensors") for name in ("sharded", "plain"))
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-5)

    model = TinySeqForConditionalGeneration.from_pretrained(tmp_path / "sharded" / "best")
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert Translator.from_pretrained(tmp_path / "sharded" / "best").translate(["The cat drank the milk."]).texts

    run = forked(options(corpus, tmp_path / "killed"), tmp_path / "killed.out", **plugin)
    run.wait_until(has_reached(tmp_path / "killed", 6))
    run.kill()
    run = forked(options(corpus, tmp_path / "killed"), tmp_path / "killed.out", **plugin)
    assert run.end() == [0, 0], run.text
    assert "goes on from" in run.text
    assert_same_outcome(tmp_path / "killed", tmp_path / "sharded", run.text)


@pytest.mark.parametrize(
    "plugin, more, reason",
    [
        ({"fsdp_version": 1}, [], "fsdp_version: 2"),
        ({"fsdp_version": 2}, ["--ema_decay", 0.9], "--ema_decay 0.9"),
    ],
)
def test_what_cannot_be_sharded_is_refused_at_the_start(corpus, tmp_path, plugin, more, reason):
    sabotage = functools.partial(shard, **plugin)
    arguments = options(corpus, tmp_path / "run", *more)
    run = Run.forked(arguments, tmp_path / "out", 2, {rank: ([], None, sabotage) for rank in (0, 1)})
    assert run.end() == [1, 1], run.text
    assert reason in run.text
    assert "Traceback" not in run.text
    assert not (tmp_path / "run").exists()


def join_late():
    """Makes a process need the first one, which keeps the group's addresses, when that is long done with joining."""
    shard(fsdp_version=1)

    class Late(distributed.Accelerator):
        def __init__(self, **keywords):
            super().__init__(**keywords)
            time.sleep(2)
            torch.distributed.distributed_c10d._get_default_store().add("joined", 1)

    distributed.Accelerator = Late


def test_a_refusal_waits_for_a_process_that_is_still_joining(corpus, tmp_path):
    sabotage = {0: ([], None, functools.partial(shard, fsdp_version=1)), 1: ([], None, join_late)}
    run = Run.forked(options(corpus, tmp_path / "run"), tmp_path / "out", 2, sabotage)
    assert run.end() == [1, 1], run.text
    assert run.text.count("use FSDP 2") == 2
    assert "Traceback" not in run.text


def use_deepspeed():
    """Does what `accelerate launch --use_deepspeed` does to a process."""
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"


def test_deepspeed_is_refused_with_the_reason_and_what_to_use_instead(corpus, tmp_path):
    run = Run.forked(options(corpus, tmp_path / "run"), tmp_path / "out", 1, {0: ([], None, use_deepspeed)})
    assert run.end() == [1], run.text
    assert run.text.startswith("train.py: error: DeepSpeed is not supported")
    assert "fsdp_version: 2" in run.text
    assert len(run.text.splitlines()) == 1


@pytest.mark.slow
def test_a_configuration_that_accelerate_would_not_follow_on_a_cpu_is_refused(corpus, tmp_path):
    configuration = tmp_path / "fsdp.yaml"
    configuration.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nuse_cpu: true\nnum_machines: 1\n"
        "num_processes: 2\nmixed_precision: 'no'\nfsdp_config:\n  fsdp_version: 2\n"
        f"  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_transformer_layer_cls_to_wrap: {LAYERS}\n",
        encoding="utf-8",
    )
    launch = [*ACCELERATE, "--config_file", configuration, "--main_process_port", free_port(), TRAIN]
    run = Run.launched([*launch, *options(corpus, tmp_path / "run")], tmp_path / "out", CUDA_VISIBLE_DEVICES="")
    assert run.end() == [1], run.text
    assert "train.py: error: FSDP" in run.text
