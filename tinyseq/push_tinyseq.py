# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What ``push_to_hub`` of model, tokenizer and configuration has beside Transformers': private means private.

And the first card of a repository says how to use the model. This file travels with a model's weights, so that all of
it holds for a model that was loaded from the Hub, too.
"""

import os
from pathlib import Path

from huggingface_hub import HfApi

# The README.md of a repository that a single push_to_hub made; `tinyseq push` writes one with data and scores. The
# part between the markers is ours to replace, the rest is the author's.
CARD_BEGIN, CARD_END = "<!-- tinyseq: begin -->", "<!-- tinyseq: end -->"
FIRST_CARD = """\
---
library_name: transformers
pipeline_tag: translation
tags:
- tinyseq
---

{begin}
# {name}

A small encoder-decoder Transformer for translation, made with tinyseq.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo_id}", trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained("{repo_id}", trust_remote_code=True)
inputs = tokenizer("A text to translate.", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))
```

`trust_remote_code=True` lets the model's code, which lies in this repository, run on your machine. Where the package
tinyseq is installed, `import tinyseq` takes its place.
{end}
"""


class PushToHub:
    """Pushing to the Hub, alike for model, tokenizer and configuration: private means private."""

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: bool | str | None = None, **kwargs):
        """As in every Transformers class, but `private=True` refuses a repository that is there and is public.

        Raises:
            ValueError: `private=True`, and the repository is public. Nothing was pushed.
        """
        if private:
            refuse_public(repo_id, token)
        return super().push_to_hub(repo_id, private=private, token=token, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: str | os.PathLike, *args, **kwargs):
        """As in every Transformers class; with `push_to_hub=True`, `private=True` is kept as in `push_to_hub`."""
        if kwargs.get("push_to_hub") and kwargs.get("private"):
            refuse_public(kwargs.get("repo_id") or os.path.basename(save_directory), kwargs.get("token"))
        return super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]

    def _upload_modified_files(self, working_dir: str | os.PathLike, repo_id: str, *args, **kwargs):
        # Transformers has put its form for a card there, where the repository had none, with nothing filled in. A card
        # from the repository may have gaps of that name too, and is its author's
        card = Path(working_dir, "README.md")
        has_gaps = card.is_file() and "[More Information Needed]" in card.read_text(encoding="utf-8")
        if has_gaps and not HfApi(token=kwargs.get("token")).file_exists(repo_id, "README.md"):
            text = FIRST_CARD.format(name=repo_id.split("/")[-1], repo_id=repo_id, begin=CARD_BEGIN, end=CARD_END)
            card.write_text(text, encoding="utf-8")
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)  # type: ignore[misc]


def refuse_public(name: str, token: bool | str | None = None) -> str:
    """Makes a private repository of that name where there is none; returns its full name.

    Args:
        name: `"owner/name"`, or the name alone in the namespace of the token's owner.
        token: The token; by default the one of the environment or of `hf auth login`.

    Raises:
        ValueError: There is one, and it is public.
    """
    api = HfApi(token=token)
    name = api.create_repo(name, private=True, exist_ok=True).repo_id  # leaves one that exists as it is
    if not api.model_info(name).private:
        raise ValueError(
            f"{name} is a public repository and private=True was asked for, so nothing was pushed; choose another "
            f"name, make the repository private in its settings, or leave private=True out"
        )
    return name


__all__ = ["PushToHub"]
