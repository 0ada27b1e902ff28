# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A model on the Hub: its card, and its push.

A push is one commit, or none: weights, tokenizer, code and card together, and only on top of the state that was looked
at. What is private stays private: with ``private=True`` nothing goes into a public repository.

The card is made from what the training wrote beside the weights (``training.json``). Its metadata and the part between
the two markers are ours; everything else in a README.md is its author's, and stays.
"""

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from transformers.utils import logging

from ..files import save_whole
from ..push_tinyseq import CARD_BEGIN, CARD_END, PublicRepositoryError, private_repository
from .card import our_part

logger = logging.get_logger(__name__)

T = TypeVar("T")

WAITS = (1, 4, 15)  # seconds before another try, where the Hub does not say how long to wait
LONGEST_WAIT = 120  # seconds; a Hub that asks for more is told of instead
OF_THE_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?|training\.json")
# What a checkpoint has beside its model, for the run alone: it names files, and may quote texts
OF_THE_RUN = re.compile(r"checksums\.json|state\.json|log\.jsonl|(optimizer|average)\.(json|safetensors)")
FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class HubPushError(OSError):
    """A push that did not happen: the repository is as it was before. The message says why, and what to do."""


def create_repository(name: str, *, private: bool | None = None, token: str | None = None) -> str:
    """Makes sure that a push can succeed: there is a token, it may write, and the repository is as private as asked.

    Args:
        name: `"owner/name"`, or the name alone in the namespace of the token's owner.
        private: Of a repository that is not there yet: whether it is private (default: public, or as its organisation
            has it). With `True`, one that is there and public is refused.
        token: A token with write access; by default the one of the environment or of `hf auth login`.

    Returns:
        The full name.

    Raises:
        HubPushError: It could not succeed.
        ValueError: The name is no name of a repository.
    """
    api = HfApi(token=token)

    def create() -> str:
        api.whoami()  # before a repository is made: without a token, or with a bad one, this says so
        if private:
            return private_repository(name, token)
        return api.create_repo(name, private=private, exist_ok=True).repo_id

    try:
        full_name = attempt(create, name)
        attempt(lambda: api.auth_check(full_name, write=True), full_name)
    except PublicRepositoryError as error:
        raise HubPushError(str(error)) from error
    return full_name


def check_token(token: str | None = None) -> None:
    """Makes sure that there is a token that the Hub knows; nothing is changed there.

    Raises:
        HubPushError: There is none.
    """
    attempt(HfApi(token=token).whoami, "the Hub")


def push(
    folder: str | Path,
    name: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | None = None,
    message: str = "Upload tinyseq model",
) -> str:
    """Puts a model's folder on the Hub, as one commit with a new card, and returns the commit's address.

    Files of the repository that the folder lacks stay as they are, but for weights, which might be loaded in place of
    the new ones, and for what is known of these.

    Args:
        folder: As `train.py` leaves one, or `save_pretrained`.
        name: `"owner/name"`, or the name alone in the namespace of the token's owner.
        private: As for `create_repository`.
        revision: Branch to push to; made from the main one if it is not there.
        token: As for `create_repository`.
        message: Of the commit.

    Raises:
        HubPushError: Nothing was pushed; the message says why.
        ValueError: The folder holds no model, or the name is no name of a repository.
    """
    folder = Path(folder)
    files = files_of_a_model(folder)
    name = create_repository(name, private=private, token=token)
    api = HfApi(token=token)

    def push_once() -> str:
        new_branch = revision if revision is not None and not api.revision_exists(name, revision) else None
        if new_branch is not None:
            api.create_branch(name, branch=new_branch)
        try:
            return commit(api, folder, files, name, revision, message)
        except BaseException as error:
            answer = answer_behind(error)
            if new_branch is not None and (answer is None or answer.response.status_code != 412):  # 412: others use it
                with suppress(Exception):  # what went wrong is told; this is only tidying up
                    api.delete_branch(name, branch=new_branch)
            raise

    with bars_only_on_a_terminal():
        return attempt(push_once, name)


def commit(api: HfApi, folder: Path, files: list[Path], name: str, revision: str | None, message: str) -> str:
    """Makes one commit of the files and a card on top of the branch as it is now; returns the commit's address."""
    head = api.model_info(name, revision=revision).sha
    there = api.list_repo_files(name, revision=head)
    if "README.md" in there:
        with tempfile.TemporaryDirectory() as aside:
            api.hf_hub_download(name, "README.md", revision=head, local_dir=aside)
            before = read_card(Path(aside))
    else:
        before = read_card(folder)
    card = make_card(folder, name, before)
    names = {path.name for path in files}
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd("README.md", card.encode()),
        *(CommitOperationAdd(path.name, path) for path in files if path.name != "README.md"),
        *(CommitOperationDelete(path) for path in there if OF_THE_WEIGHTS.fullmatch(path) and path not in names),
    ]
    return api.create_commit(
        name, operations, commit_message=message, revision=revision, parent_commit=head
    ).commit_url


class BackgroundPush:
    """Pushes models while the training that makes them goes on.

    One push at a time: a model that comes while another is under way is left to the next. What fails is a warning, as
    a training must not end for it; only the last push, which has everything, must succeed.
    """

    def __init__(self, name: str, private: bool | None = None):
        self.name = name
        self.private = private
        self.api = HfApi()  # has one thread for what runs in the background
        self.running: Future | None = None

    def push(self, folder: Path, message: str) -> None:
        """Begins to push a copy of the folder, which may change meanwhile."""
        if self.running is not None and not self.running.done():
            return
        with ExitStack() as stack:
            try:
                aside = tempfile.TemporaryDirectory(prefix="tinyseq-push-", ignore_cleanup_errors=True)
                copy = Path(stack.enter_context(aside), folder.name)
                shutil.copytree(folder, copy)
            except OSError as error:  # a full disk for temporary files, say
                logger.warning(f"A push to {self.name} was left out; training goes on. {error}")
            else:
                self.running = self.api.run_as_future(self._push_copy, copy, message, stack.pop_all())

    def _push_copy(self, copy: Path, message: str, removal: ExitStack) -> None:
        with removal:
            try:
                push(copy, self.name, private=self.private, message=message)
            except Exception as error:  # whatever it is, it must not end the training
                logger.warning(f"A push to {self.name} failed; training goes on. {error}")

    def finish(self, folder: Path, message: str) -> str:
        """Waits for a push that is under way, pushes the folder as it is now, and returns the commit's address.

        Raises:
            HubPushError: It failed.
        """
        self.close()
        return push(folder, self.name, private=self.private, message=message)

    def close(self) -> None:
        """Waits for a push that is under way."""
        if self.running is not None:
            self.running.result()


def files_of_a_model(folder: Path) -> list[Path]:
    """Returns the files to push: all that lie directly in the folder, but hidden ones and those of the run alone.

    Raises:
        ValueError: There is no model of tinyseq's in the folder, or weights that are a pickle.
    """
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder}: holds no config.json, so it is not the folder of a model")
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    if kind != "tinyseq":
        raise ValueError(f"{folder}: holds a {kind!r} model, not one of tinyseq's; push it by its own push_to_hub")
    found = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    files = [path for path in found if not OF_THE_RUN.fullmatch(path.name)]
    if not any(path.suffix == ".safetensors" for path in files):
        raise ValueError(f"{folder}: holds no weights (no .safetensors file)")
    pickles = [path.name for path in files if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")]
    if pickles:
        raise ValueError(f"{folder}: {', '.join(pickles)} may run code when read; remove it, and push again")
    return files


def make_card(folder: Path, name: str, before: str | None = None) -> str:
    """Returns the README.md of the model in `folder`.

    Args:
        folder: The model's folder, with `training.json` if `train.py` made it.
        name: `"owner/name"` of the repository, or the path by which the model is loaded.
        before: The README.md there is. Only its metadata that are ours, and the part between our markers, are new. A
            text without the markers is its author's alone, and gets new metadata only.

    Raises:
        ValueError: The metadata of `before` are no YAML mapping.
    """
    training = folder / "training.json"
    facts: dict[str, Any] = json.loads(training.read_text(encoding="utf-8")) if training.is_file() else {}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    metadata, part = our_part(config, facts, name)
    part = f"{CARD_BEGIN}\n{part.strip()}\n{CARD_END}"
    theirs, body = split_card(f"\n{part}\n" if before is None else before)
    if "nrefs:" in str(theirs.get("model-index")):  # scores of ours, of weights that may be gone
        theirs = {key: value for key, value in theirs.items() if key not in ("model-index", "metrics")}
    begin, end = body.find(CARD_BEGIN), body.find(CARD_END)
    if 0 <= begin < end:
        body = body[:begin] + part + body[end + len(CARD_END) :]
    tags = theirs.get("tags") or []  # a list, or one
    tags = list(dict.fromkeys([*(tags if isinstance(tags, list) else [tags]), *metadata.pop("tags")]))
    front = yaml.safe_dump({**theirs, **metadata, "tags": tags}, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n{body}"


def read_card(folder: Path) -> str | None:
    """Returns the README.md of a folder, if it has one."""
    card = folder / "README.md"
    return card.read_text(encoding="utf-8-sig") if card.is_file() else None


def write_facts(folder: Path, facts: dict[str, Any], name: str) -> None:
    """Writes what is known of a model beside its weights, and its card, in which an author's text is kept.

    Args:
        folder: The model's.
        facts: For `training.json`.
        name: As for `make_card`.
    """
    write_training_json(folder, facts)
    (folder / "README.md").write_text(make_card(folder, name, read_card(folder)), encoding="utf-8")


def write_training_json(folder: Path, facts: dict[str, Any]) -> None:
    """Writes what is known of a model beside its weights: the run's summary."""
    (folder / "training.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def add_facts(folder: Path, facts: dict[str, Any], name: str) -> None:
    """Adds to a saved model's `training.json` and card; whole, or the folder stays as it was."""

    def write(aside: Path) -> None:
        shutil.copytree(folder, aside, dirs_exist_ok=True)
        known = json.loads((aside / "training.json").read_text(encoding="utf-8"))
        write_facts(aside, {**known, **facts}, name)

    save_whole(folder, write)


def split_card(text: str) -> tuple[dict[str, Any], str]:
    """Returns metadata and body of a README.md."""
    found = FRONT_MATTER.match(text)
    if not found:
        return {}, text if text.startswith("\n") else f"\n{text}"
    try:
        metadata = yaml.safe_load(found[1]) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"README.md: its metadata are no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"README.md: its metadata must be lines 'key: value', and are a {type(metadata).__name__}")
    return metadata, text[found.end() :]


def attempt(request: Callable[[], T], name: str) -> T:
    """Returns what a request to the Hub gives; tries again where the Hub is only busy.

    Raises:
        HubPushError: It was refused, or tried long enough.
    """
    for wait in (*WAITS, None):
        try:
            return request()
        except LocalTokenNotFoundError as error:
            raise HubPushError(
                "there is no Hub token: run `hf auth login`, or set HF_TOKEN, to a token with write access"
            ) from error
        except (HTTPError, OSError, RuntimeError) as error:  # Xet and the uploads of large files have their own kinds
            if isinstance(error, HubPushError) or getattr(error, "filename", None) is not None:
                raise  # told already, or of a file here
            answer = answer_behind(error)
            if answer is not None:
                may_pass = answer.response.status_code in (429, 500, 502, 503, 504)
                seconds, reason = waiting_time(answer, wait), explain(answer, name)
            else:
                may_pass, seconds = not constants.is_offline_mode(), float(wait or 0)
                detail = " ".join(str(error).split()) or type(error).__name__
                reason = f"{constants.ENDPOINT} can't be reached, or it broke off: {detail}"
            if not may_pass or wait is None or seconds > LONGEST_WAIT:
                raise HubPushError(f"{name}: nothing was pushed: {reason}") from error
            logger.warning(f"The Hub is busy or can't be reached; trying again in {seconds:g} seconds.")
            time.sleep(seconds)
    raise AssertionError("the last try returns or raises")


@contextmanager
def bars_only_on_a_terminal() -> Iterator[None]:
    """Lets the client draw its progress bars only where somebody watches: elsewhere they would bury the messages."""
    hide = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if hide:
        disable_progress_bars()
    try:
        yield
    finally:
        if hide:
            enable_progress_bars()


def answer_behind(error: BaseException | None) -> HfHubHTTPError | None:
    """Returns the Hub's answer that led to an error, if it was an answer: an upload's is behind a RuntimeError."""
    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def waiting_time(error: HfHubHTTPError, default: float | None) -> float:
    """Returns the seconds after which the Hub wants to be asked again."""
    headers, is_limit = error.response.headers, error.response.status_code == 429
    asked = re.search(r"\bt=(\d+)", headers.get("RateLimit", "") if is_limit else "") or re.fullmatch(
        r"\s*(\d+)\s*", headers.get("Retry-After", "")
    )
    return float(asked[1]) + 1 if asked else float(default or 0)


def explain(error: HfHubHTTPError, name: str) -> str:
    """Returns what the Hub's refusal means and what to do, in one line."""
    status = error.response.status_code
    detail = error.server_message or " ".join(str(error).split())
    reasons = {
        401: "the Hub does not know this token; run `hf auth login`, or set HF_TOKEN, to one with write access",
        403: "this token may not write there; it needs write access, and its owner a right to the namespace",
        412: "someone else's commit came in between; look at it, then push again",
        429: f"the Hub wants fewer requests for now; push again in {waiting_time(error, 300) / 60:.0f} minutes",
    }
    reason = reasons.get(status, f"the Hub answered with status {status}")
    if isinstance(error, RepositoryNotFoundError):  # it may be a 401, too
        reason = f"there is no repository {name} that this token may see"
    elif status >= 500:
        reason = f"the Hub has a fault of its own (status {status}); push again later"
    return f"{reason} ({detail})"
