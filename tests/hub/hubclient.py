"""A client of the Hub: programs that run in new processes, with nothing in their caches."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import fresh
import pytest
from hubserver import HubServer

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """What became of a program."""

    code: int
    out: str
    err: str

    @property
    def found(self):
        """What it printed, from JSON; it must have ended well."""
        assert self.code == 0, self.err
        return json.loads(self.out.splitlines()[-1])


@dataclass
class Client:
    """Runs programs against a Hub.

    Args:
        hub: The server.
        folder: Where the programs run.
        xet: Whether large files may travel with Xet.
        corpus: Folder of `train.tsv` and `valid.tsv`.
        hf_home: Where the last program had its cache.
    """

    hub: HubServer
    folder: Path
    xet: bool
    corpus: Path
    hf_home: Path = Path()
    numbers: count = field(default_factory=count)

    def run(self, *command, token="hf_alice", hf_home=None, timeout=300, **environment) -> Done:
        """Runs a command. It logs in with `token`, if there is one, and starts with an empty cache, or `hf_home`."""
        self.hf_home = hf_home or self.folder / f"home{next(self.numbers)}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment = {
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": str(self.hf_home),
            "HF_HUB_DISABLE_XET": "0" if self.xet else "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            **({"HF_TOKEN": token} if token else {}),
            **environment,
        }
        try:
            done = fresh.run(command, cwd=self.folder, env=inherited | environment, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"{command} took over {timeout} seconds; it wrote:\n{error.output}\n{error.stderr}")
        return Done(done.returncode, done.stdout, done.stderr)

    def python(self, script: str, *arguments, without_tinyseq=False, **options) -> Done:
        """Runs a script; `without_tinyseq` as on a machine where the package is not installed."""
        hidden = "import sys\nsys.modules['tinyseq'] = None\n" if without_tinyseq else ""
        return self.run(sys.executable, "-c", hidden + script, *arguments, **options)

    def tinyseq(self, *arguments, **options) -> Done:
        """Runs the command `tinyseq`."""
        return self.run(sys.executable, "-m", "tinyseq.cli", *arguments, **options)

    def train(self, *arguments, launcher=(sys.executable,), **options) -> Done:
        """Runs train.py for some updates on pairs that are there, or on those that `arguments` name."""
        return self.run(*launcher, ROOT / "train.py", *short_run(self.corpus), *arguments, **options)


def short_run(corpus: Path) -> list:
    """Returns options by which train.py makes a model in no time, and not a good one."""
    pairs = ["--train", corpus / "train.tsv", "--valid", corpus / "valid.tsv", "--source", "en", "--target", "es"]
    sizes = ["--max_steps", 4, "--eval_steps", 2, "--eval_pairs", 2, "--vocab_size", 300]
    return [ROOT / "recipes/smoke.yaml", *pairs, *sizes]


def files_in(folder: Path) -> dict[str, bytes]:
    """Returns the files below a folder, by their path in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
