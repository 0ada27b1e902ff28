# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Weights and an optimizer's state as files: from a model that is plain, or split over processes, and back to the bit.

All of it is safetensors and JSON: reading runs nothing that is in a file, whoever made it.
"""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor, distribute_tensor

WEIGHTS = "model.safetensors"


class CheckpointError(ValueError):
    """A checkpoint that can't be used; the message names the file and what is wrong with it."""


# --- a folder whole or not at all -----------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        CheckpointError: The file holds something else, or can't be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end
        raise CheckpointError(f"{path}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: must hold a JSON object, and holds a {type(content).__name__}")
    return content


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Reads a safetensors file, onto the CPU.

    Raises:
        CheckpointError: The file holds something else, or can't be read.
    """
    try:
        return load_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: is not a whole safetensors file ({error})") from error


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Reads the weights of a model's folder by name, and nothing but safetensors.

    Raises:
        CheckpointError: There are none, or they can't be read.
    """
    return read_safetensors(Path(folder) / WEIGHTS)


def save_tensors(path_stem: Path, flat: dict[str, Any]) -> None:
    """Writes values by name: tensors to `STEM.safetensors`, the rest to `STEM.json`.

    Args:
        path_stem: Path without the suffix.
        flat: Tensors of any shape and of any dtype that safetensors has; numbers, texts, truth values, `None`, lists
            and dictionaries of these (tuples come back as lists).

    Raises:
        ValueError: A value is of another kind; the message says which.
    """
    tensors = {}
    taken: set[int] = set()  # safetensors refuses tensors that share memory, as views of one another do
    for name, value in flat.items():
        if isinstance(value, Tensor):
            tensor = value.detach().cpu().contiguous()
            address = tensor.untyped_storage().data_ptr()
            tensors[name] = tensor.clone() if address in taken else tensor
            taken.add(address)
    rest = {name: value for name, value in flat.items() if name not in tensors}
    for name, value in rest.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: a {type(value).__name__} is neither a tensor nor JSON ({error})") from error
    stem = str(path_stem)
    Path(f"{stem}.json").write_text(json.dumps(rest, indent=1) + "\n", encoding="utf-8")
    save_file(tensors, f"{stem}.safetensors")


def load_tensors(path_stem: Path) -> dict[str, Any]:
    """Reads what `save_tensors` wrote.

    Raises:
        CheckpointError: One of the two files is missing, damaged, or holds something else, such as a pickle.
    """
    stem = str(path_stem)
    rest, tensors = read_json(Path(f"{stem}.json")), read_safetensors(Path(f"{stem}.safetensors"))
    both = sorted(rest.keys() & tensors.keys())
    if both:
        raise CheckpointError(f"{stem}.json: holds {both[0]}, which {stem}.safetensors holds too")
    return {**rest, **tensors}


def gather_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the full weights and the full state of the optimizer, on the CPU.

    The same, to the bit, whether the model is plain, compiled, or wrapped by DDP or FSDP 2. A collective: all must
    call it; the first process gets the values, the others empty dictionaries.

    torch's own `get_optimizer_state_dict` is not used: called before the first update it makes one and counts it, and
    its flat form has no place for a parameter that never had a gradient.

    Args:
        model: As it is trained, wrapped.
        optimizer: Of its parameters, or of some of them.

    Returns:
        The weights by the names of the unwrapped model, tied ones once; and the optimizer's state, flat:
        `state.PARAMETER.ENTRY` for what it knows of a parameter, `group.NUMBER.OPTION` for each option of a group of
        parameters, and `group.NUMBER.params` for their names. They may share memory with the model.

    Raises:
        ValueError: The optimizer has a parameter that the model has not.
    """
    unwrapped = unwrap(model)
    tensors = unwrapped.state_dict()  # first: by it FSDP 2 ends a forward pass, and has its own parameters back
    names, tied = parameter_names(unwrapped), tied_names(unwrapped)
    weights = {name: whole(tensor) for name, tensor in tensors.items() if name not in tied}
    flat: dict[str, Any] = {}
    for number, group in enumerate(optimizer.param_groups):
        for option, value in group.items():
            flat[f"group.{number}.{option}"] = [name_of(p, names) for p in value] if option == "params" else value
    for parameter, entries in optimizer.state.items():
        for entry, value in entries.items():
            flat[f"state.{name_of(parameter, names)}.{entry}"] = whole(value)
    return (weights, flat) if is_first_process() else ({}, {})


def restore_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, weights: dict[str, Tensor], optimizer_state: dict[str, Any]
) -> None:
    """Gives a model and its optimizer what `gather_state` returned, to the bit.

    A collective: all processes must call it, each with the same values, which it has read itself. Model and optimizer
    may be wrapped otherwise than where the values come from. Everything is checked before anything is changed.

    Args:
        model: As it will be trained, wrapped.
        optimizer: Of the same parameters, in the same groups.
        weights: By name; tied ones once.
        optimizer_state: As `gather_state` returns it.

    Raises:
        CheckpointError: The values are of another model or optimizer; the message says which differ.
    """
    unwrapped = unwrap(model)
    tensors = unwrapped.state_dict()  # first, as in `gather_state`
    names, tied = parameter_names(unwrapped), tied_names(unwrapped)
    expected = {name: tensor for name, tensor in tensors.items() if name not in tied}
    check_weights("the model", expected, "the checkpoint", weights)
    state, groups = unflatten(optimizer_state)
    check_groups(optimizer, groups, names)
    check_entries(state, {name: parameter for parameter, name in names.items()})

    parts = {name: part(weights[name], tensor) for name, tensor in expected.items()}
    unwrapped.load_state_dict({**parts, **{name: parts[first] for name, first in tied.items()}})
    by_number, numbers = {}, itertools.count()  # an optimizer's own state knows its parameters by number
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        saved["params"] = []
        for parameter in group["params"]:
            number = next(numbers)
            saved["params"].append(number)
            if names[parameter] in state:
                entries = state[names[parameter]]
                by_number[number] = {entry: part(value, parameter) for entry, value in entries.items()}
    optimizer.load_state_dict({"state": by_number, "param_groups": groups})


def unwrap(model: nn.Module) -> nn.Module:
    """Returns the model without what DDP and compilation put around it; FSDP 2 puts nothing there."""
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise ValueError("FSDP 1 is not supported, as it flattens the parameters; use FSDP 2 (fsdp_version: 2)")
    return extract_model_from_parallel(model, keep_torch_compile=False)


def is_first_process() -> bool:
    """Whether this is the process that writes."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def parameter_names(model: nn.Module) -> dict[Tensor, str]:
    """Returns the name of each parameter; of several, the first."""
    return {parameter: name for name, parameter in model.named_parameters()}


def tied_names(model: nn.Module) -> dict[str, str]:
    """Returns the further names of tied parameters, each with the first."""
    first = parameter_names(model)
    every = model.named_parameters(remove_duplicate=False)
    return {name: first[parameter] for name, parameter in every if first[parameter] != name}


def name_of(parameter: Tensor, names: dict[Tensor, str]) -> str:
    """Returns the name of a parameter of the optimizer, which must be one of the model's."""
    if parameter not in names:
        raise ValueError(f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model")
    return names[parameter]


def whole(value: Any) -> Any:
    """Returns a tensor as it would be in one process, on the CPU, where this process is the first; others as it is."""
    if isinstance(value, DTensor):
        value = value.full_tensor()  # a collective
    return value.detach().cpu() if isinstance(value, Tensor) and is_first_process() else value


def part(value: Any, like: Tensor) -> Any:
    """Returns a copy of a whole tensor as this process needs it: cut as `like` is, if it has its shape.

    A copy, as training changes it, and what was read may lie in the memory of a file.
    """
    if isinstance(value, Tensor) and isinstance(like, DTensor) and value.shape == like.shape:
        value = value.to(like.to_local().device)
        return distribute_tensor(value, like.device_mesh, like.placements)  # a collective
    return value.clone() if isinstance(value, Tensor) else value


def unflatten(optimizer_state: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Returns the entries by parameter, and the groups, of a flat state of an optimizer."""
    state: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in optimizer_state.items():
        kind, _, rest = key.partition(".")
        if kind == "group":
            number, _, option = rest.partition(".")
            groups.setdefault(number, {})[option] = value
        elif kind == "state":
            name, _, entry = rest.rpartition(".")
            state.setdefault(name, {})[entry] = value
        else:
            raise CheckpointError(f"the checkpoint's optimizer holds {key!r}, which is neither of a group nor a state")
    numbers = [str(number) for number in range(len(groups))]
    if groups.keys() != set(numbers):
        raise CheckpointError(f"the checkpoint's optimizer has groups {', '.join(groups)}; they count from 0")
    return state, [groups[number] for number in numbers]


def check_weights(one: str, expected: dict[str, Tensor], other: str, found: dict[str, Tensor]) -> None:
    """Refuses weights that are not like those expected: by name, shape and dtype."""
    check_names(one, expected, other, found)
    for name in expected:
        mine, theirs = (
            f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            for tensor in (expected[name], found[name])
        )
        if mine != theirs:
            raise CheckpointError(f"{other} does not fit {one}: {name} is {theirs}, and must be {mine}")


def check_groups(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], names: dict[Tensor, str]) -> None:
    """Refuses groups of parameters that are not those of the optimizer, and gives their options its types."""
    if len(groups) != len(optimizer.param_groups):
        raise CheckpointError(
            f"the checkpoint's optimizer has {len(groups)} groups of parameters, and this one has "
            f"{len(optimizer.param_groups)}"
        )
    for number, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        params = saved.get("params")
        if not isinstance(params, list) or not all(isinstance(name, str) for name in params):
            raise CheckpointError(f"group.{number}.params of the checkpoint's optimizer must be a list of names")
        mine = [name_of(parameter, names) for parameter in group["params"]]
        check_names(f"group {number} of the optimizer", mine, "the checkpoint's", params)
        for option, value in group.items():
            found = saved.setdefault(option, value)  # it may have come with a newer torch
            if isinstance(value, tuple) and isinstance(found, list):  # JSON has no tuples
                found = saved[option] = tuple(found)
            if option != "params" and None not in (value, found) and kind_of(value) != kind_of(found):
                raise CheckpointError(
                    f"group.{number}.{option} of the checkpoint's optimizer is {found!r}; it must be of the kind of "
                    f"{value!r}"
                )


def check_entries(state: dict[str, dict[str, Any]], parameters: dict[str, Tensor]) -> None:
    """Refuses entries of an optimizer's state that are of no parameter, or of one of another shape."""
    for name, entries in state.items():
        if name not in parameters:
            raise CheckpointError(f"the checkpoint's optimizer knows of {name}, which is not in the model")
        shape = parameters[name].shape
        for entry, value in entries.items():
            # One with fewer dimensions is no moment of each weight: a count of updates, or the mean of a row
            if isinstance(value, Tensor) and value.dim() >= len(shape) > 0 and value.shape != shape:
                raise CheckpointError(
                    f"{entry} of {name} has shape {tuple(value.shape)} in the checkpoint's optimizer, and the "
                    f"parameter has {tuple(shape)}"
                )


def check_names(one: str, expected: Iterable[str], other: str, found: Iterable[str]) -> None:
    """Refuses names other than those expected, and tells a few of them."""
    missing, unknown = sorted({*expected} - {*found}), sorted({*found} - {*expected})
    sides = [
        f"only {side} has {', '.join(names[:3])}" + f" and {len(names) - 3} more" * (len(names) > 3)
        for side, names in ((one, missing), (other, unknown))
        if names
    ]
    if sides:
        raise CheckpointError(f"{other} does not fit {one}: {'; '.join(sides)}")


def kind_of(value: Any) -> Any:
    """Returns what must agree of two values of an option: numbers may be whole or not, a truth value is no number."""
    if isinstance(value, list | tuple):
        return [kind_of(item) for item in value]
    return float if type(value) is int else type(value)


# --- the average of several -----------------------------------------------------------------------------------
