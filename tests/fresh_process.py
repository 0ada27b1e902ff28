"""Python in a new process: what an import does, and what a model's own code does where tinyseq can't be imported."""

import json
import os
import sys
from pathlib import Path

import fresh

import tinyseq

# At the head of a script
WITHOUT_TINYSEQ = """
import sys

class NoTinyseq:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tinyseq":
            raise ModuleNotFoundError("this process has no tinyseq")

sys.meta_path.insert(0, NoTinyseq())
"""


def run_python(script: str, *arguments) -> dict:
    """Runs `script` in a new process, with nothing to read on its input, and returns the JSON it prints."""
    places = [Path(tinyseq.__file__).parents[1], Path(__file__).parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = fresh.run([sys.executable, "-c", script, *map(str, arguments)], env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
