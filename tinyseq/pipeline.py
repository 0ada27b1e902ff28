# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The translation pipeline that Transformers 5 took away, again: `pipeline("translate", model=...)`.

What comes out is as it was. The task has another name because the old one, "translation", is refused since.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset
from transformers import Pipeline

from .push_tinyseq import PushToHub
from .translation import Translator

TASK = "translate"


class TranslationPipeline(PushToHub, Pipeline):
    """Translates with any encoder-decoder model of Transformers; a [`Translator`] does the work and has its promises.

        >>> pipe = pipeline("translate", model="runs/en-de/best")
        >>> pipe("Two dogs play.")
        [{'translation_text': 'Zwei Hunde spielen.'}]

    Options of `model.generate`, such as `num_beams`, are given when it is made or called; what is given in a call goes
    before.
    """

    _load_tokenizer = True

    def __init__(self, *args: Any, batch_size: int = 64, **kwargs: Any):
        super().__init__(*args, batch_size=batch_size, **kwargs)
        self.translator(batch_size)  # refuses now what can't translate

    def __call__(
        self,
        inputs: str | Iterable[str],
        *,
        batch_size: int | None = None,
        num_workers: int | None = None,
        **generate_options: Any,
    ) -> list[dict[str, str]] | Iterator[list[dict[str, str]]]:
        """Returns the translations, in order.

        Args:
            inputs: A text or a list of texts (or a tuple, a column of a data set ...) gives a list with a dictionary
                for each text. An iterator or a PyTorch `Dataset`, such as `KeyDataset`, gives an iterator with a list
                of one dictionary for each text: a batch is read and translated when the iterator gets there.
            batch_size: Most sentences in a batch. A list is sorted by length first.
            num_workers: Processes that read a `Dataset`.
            generate_options: Options of `model.generate`.

        Raises:
            TypeError: `inputs` or one of them is of the wrong type.
            ValueError: An item is no valid text, or an option is not allowed.
        """
        _, options, _ = self._sanitize_parameters(**{**self._forward_params, **generate_options})
        if isinstance(inputs, str):
            return self.run_single(inputs, {}, options, {})
        translator = self.translator(batch_size)
        if not isinstance(inputs, Dataset | Iterator):
            return [result for text in translator(inputs, **options) for result in self.postprocess(text)]
        if isinstance(inputs, Dataset):
            workers = num_workers if num_workers is not None else self._num_workers or 0
            inputs = DataLoader(inputs, batch_size=None, num_workers=workers)
        return map(self.postprocess, translator.stream(inputs, portion=translator.batch_size, **options))

    def translator(self, batch_size: int | None = None) -> Translator:
        """Returns what does the work."""
        return Translator(self.model, self.tokenizer, self._batch_size if batch_size is None else batch_size)

    def _sanitize_parameters(self, **generate_options: Any) -> tuple[dict, dict, dict]:
        return {}, generate_options, {}

    def preprocess(self, text: str) -> str:
        """Returns the text as it is: a translator encodes it, with others of its length."""
        return text

    def _forward(self, text: str, **generate_options: Any) -> str:
        return self.translator().translate([text], **generate_options).texts[0]

    def postprocess(self, translation: str) -> list[dict[str, str]]:
        """Returns a translation in the form that the pipelines of Transformers have."""
        return [{"translation_text": translation}]

    def save_pretrained(self, save_directory: Any, **options: Any) -> None:
        """Saves model and tokenizer, and no pipeline with them: its code would have to be trusted to load them."""
        self.model.save_pretrained(save_directory, **options)
        self.tokenizer.save_pretrained(save_directory, **options)
