"""What processes do together: results in order whatever their lengths, errors for all, the same for all."""

import functools
import json
from types import SimpleNamespace

import pytest
from accelerate import Accelerator
from training_runs import Run

from tinyseq.training.distributed import (
    check_same_everywhere,
    leave_group,
    lost_process,
    main_process_result,
    sum_over_processes,
    translate_shared,
)


class Longer:
    """Translations of 3 words on one process, of 17 on the other; those of blank texts never end."""

    def __init__(self, rank):
        self.words = 17 if rank else 3

    def translate(self, texts, **options):
        made = [" ".join([text] * self.words) for text in texts]
        return SimpleNamespace(texts=made, unfinished=[i for i, text in enumerate(texts) if text == "c"])


def fails():
    raise OSError("the disk is full")


def message(action):
    try:
        return action()
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def work_together(folder):
    """What each of two processes does."""
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    made = {
        "processes": accelerator.num_processes,
        "translations": translate_shared(accelerator, Longer(rank), ["a", "b", "c", "d", "e"]),
        "sums": sum_over_processes(accelerator, [1.5, rank, 2.0**53]),
        "result": main_process_result(accelerator, lambda: f"of process {rank}"),
        "failure": message(lambda: main_process_result(accelerator, fails)),
        "same": message(lambda: check_same_everywhere(accelerator, {"data": "x", "options": {"seed": 0}})),
        "not the same": message(lambda: check_same_everywhere(accelerator, {"data": "x", "options": {"seed": rank}})),
    }
    (folder / f"{rank}.json").write_text(json.dumps(made))
    leave_group(accelerator)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two processes made of it."""
    folder = tmp_path_factory.mktemp("two")
    run = Run.of(functools.partial(work_together, folder), folder / "out", 2)
    assert run.end() == [0, 0], run.text
    both = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    assert [one["processes"] for one in both] == [2, 2]
    return both


def test_translations_come_back_in_order_whatever_their_lengths(found):
    texts = [" ".join([text] * (17 if number % 2 else 3)) for number, text in enumerate("abcde")]
    assert [one["translations"] for one in found] == [[texts, 1]] * 2


def test_sums_are_exact_and_the_same_on_all_processes(found):
    assert [one["sums"] for one in found] == [[3.0, 1.0, 2.0**54]] * 2


def test_what_the_first_process_gives_or_raises_is_what_all_get(found):
    assert [one["result"] for one in found] == ["of process 0"] * 2
    assert [one["failure"] for one in found] == ["OSError: the disk is full"] * 2


def test_what_differs_between_processes_is_refused_on_all_by_name(found):
    assert [one["same"] for one in found] == [None] * 2
    for one in found:
        assert "not given the same options: process 0 has {'seed': 0}, process 1 {'seed': 1}" in one["not the same"]


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (KeyError("gloomy"), False),
    ],
)
def test_only_what_comes_of_waiting_for_another_process_is_told_as_such(error, is_lost):
    assert (lost_process(error) is not None) == is_lost
