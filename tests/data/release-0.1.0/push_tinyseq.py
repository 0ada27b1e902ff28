# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What ``push_to_hub`` of model, tokenizer and configuration has beside Transformers': private means private.

And the first card of a repository says how to use the model. This file travels with a model's weights, so that all of
it holds for a model that was loaded from the Hub, too.
"""

import json
import os
from pathlib import Path

from huggingface_hub import HfApi, ModelCard

# How a model card says that the model is used; the values are written as Python
USAGE = """\
```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({name}, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained({name}, trust_remote_code=True)
inputs = tokenizer({text}, return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True)){prints}
```

`trust_remote_code=True` lets the model's own code, which lies beside its weights, run on your machine. Where the
package tinyseq is installed it is not needed: `import tinyseq` takes the code's place."""

# The README.md of a repository that a single push_to_hub made; `tinyseq push` writes one with data and scores. The
# part between the markers is ours to replace, the rest is the author's.
CARD_BEGIN, CARD_END = "<!-- tinyseq: begin -->", "<!-- tinyseq: end -->"
FIRST_CARD = """\
---
library_name: transformers
pipeline_tag: translation
tags: {tags}
---

{begin}
# {title}

A small encoder-decoder Transformer for translation, made with tinyseq.

{usage}
{end}
"""


class PublicRepositoryError(ValueError):
    """What was to be private would have gone into a public repository; nothing was pushed."""


class PushToHub:
    """Pushing to the Hub, alike for model, tokenizer and configuration: private means private."""

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: bool | str | None = None, **kwargs):
        """As in every Transformers class, but `private=True` refuses a repository that is there and is public.

        Raises:
            PublicRepositoryError: `private=True`, and the repository is public.
        """
        if private:
            private_repository(repo_id, token)
        return super().push_to_hub(repo_id, private=private, token=token, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: str | os.PathLike, *args, **kwargs):
        """As in every Transformers class; with `push_to_hub=True`, `private=True` is kept as in `push_to_hub`."""
        if kwargs.get("private") and (kwargs.get("push_to_hub") or args):  # which may be among the `args`
            private_repository(kwargs.get("repo_id") or os.path.basename(save_directory), kwargs.get("token"))
        return super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]

    def _upload_modified_files(self, working_dir: str | os.PathLike, repo_id: str, *args, **kwargs):
        # Transformers has put its form for a card there, where the repository had none, with nothing filled in. A card
        # from the repository may have gaps of that name too, and is its author's
        card = Path(working_dir, "README.md")
        has_gaps = card.is_file() and "[More Information Needed]" in card.read_text(encoding="utf-8")
        if has_gaps and not HfApi(token=kwargs.get("token")).file_exists(repo_id, "README.md"):
            card.write_text(first_card(repo_id, ModelCard.load(card).data.tags or []), encoding="utf-8")
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)  # type: ignore[misc]


def first_card(repo_id: str, tags: list[str]) -> str:
    """Returns the README.md of a repository that has none."""
    usage = USAGE.format(name=json.dumps(repo_id), text='"A text to translate."', prints="")
    return FIRST_CARD.format(
        title=repo_id.split("/")[-1],
        tags=json.dumps(list(dict.fromkeys(["tinyseq", *tags]))),
        usage=usage,
        begin=CARD_BEGIN,
        end=CARD_END,
    )


def private_repository(name: str, token: bool | str | None = None) -> str:
    """Returns the full name of a private repository, which is made where there is none.

    Args:
        name: `"owner/name"`, or the name alone in the namespace of the token's owner.
        token: The token; by default the one of the environment or of `hf auth login`.

    Raises:
        PublicRepositoryError: There is one of that name, and it is public.
    """
    api = HfApi(token=token)
    name = api.create_repo(name, private=True, exist_ok=True).repo_id  # leaves one that exists as it is
    if not api.model_info(name).private:
        raise PublicRepositoryError(
            f"{name} is a public repository and private=True was asked for, so nothing was pushed; choose another "
            f"name, make the repository private in its settings, or leave private=True out"
        )
    return name


__all__ = ["PushToHub"]
