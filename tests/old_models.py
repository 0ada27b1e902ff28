"""What a model that a release has saved said on the day of that release: tests/data/release-*.

How to make the next one, with the release's own code (the weights are to be under 500 kB):

    python train.py tests/data/release.yaml --output_dir runs/old
    cp runs/old/best/*.{py,json,safetensors} tests/data/release-X.Y.Z && rm tests/data/release-X.Y.Z/training.json
    python tests/old_models.py tests/data/release-X.Y.Z
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

RELEASES = sorted(Path(__file__).parent.glob("data/release-*"))
RECORD = "translations.json"  # beside the model


def recorded(folder: Path) -> list[dict]:
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))


@torch.no_grad()
def translated(model, tokenizer, sources: list[str]) -> list[dict]:
    """For each source its translation by arg max, with the mean log-probability, and by 4 beams, with their score."""
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    greedy = model.generate(**batch, num_beams=1)[:, 1:]  # without BEGIN
    beams = model.generate(**batch, num_beams=4, output_scores=True, return_dict_in_generate=True)
    found = []
    for row, source in enumerate(sources):
        labels = greedy[row : row + 1].masked_fill(greedy[row : row + 1] == tokenizer.pad_token_id, -100)
        loss = model(**tokenizer(source, return_tensors="pt"), labels=labels).loss
        found.append({
            "source": source,
            "greedy": tokenizer.decode(greedy[row], skip_special_tokens=True),
            "log_prob": round(-loss.item(), 6),
            "beams": tokenizer.decode(beams.sequences[row], skip_special_tokens=True),
            "beams_score": round(beams.sequences_scores[row].item(), 6),
        })  # fmt: skip
    return found


def load(folder, **options):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, **options).eval()
    return model, AutoTokenizer.from_pretrained(folder, **options)


@torch.no_grad()
def is_clear(model, tokenizer, source: str) -> bool:
    """Whether nothing comes near to what is chosen, by arg max and by beams: another processor rounds differently."""
    batch = tokenizer(source, return_tensors="pt")
    options = {"output_scores": True, "return_dict_in_generate": True}
    steps = torch.cat(model.generate(**batch, num_beams=1, **options).scores).topk(2).values  # (steps, 2)
    best, second = model.generate(**batch, num_beams=4, num_return_sequences=2, **options).sequences_scores
    return bool((steps[:, 0] - steps[:, 1]).min() > 0.02 and best - second > 0.002)


if __name__ == "__main__":
    from tinyseq.grammar import generate

    candidates = [pair.source for split in ("test", "test_combinations") for pair in generate(split, 16)]
    candidates = ["The animal didn't cross the street because it was too wide.", *candidates, "Zoë, 猫 & 42!"]
    model, tokenizer = load(sys.argv[1])
    sources = [source for source in candidates if is_clear(model, tokenizer, source)]
    text = json.dumps(translated(model, tokenizer, sources), ensure_ascii=False, indent=1)
    Path(sys.argv[1], RECORD).write_text(text + "\n", encoding="utf-8")
