"""New processes that need not import PyTorch again: each is forked from a server that has.

Transformers, `huggingface_hub`, `datasets` and tinyseq are imported by each process itself, in its own environment,
which they read at that time. What is not its own: the hash seed, the locale and the number of threads, which is one.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

LOADED_BEFORE = (
    "numpy", "torch", "torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp", "torch.utils.data",
    "torch.utils.checkpoint", "torch.nn.utils.rnn", "sympy", "pandas", "pyarrow", "pyarrow.parquet", "pyarrow.dataset",
    "httpx", "yaml", "regex", "tqdm.auto", "fsspec", "filelock", "dill", "multiprocess", "sacrebleu", "PIL.Image",
    "requests", "psutil", "jinja2", "sentencepiece", "typer", "rich",
)  # fmt: skip
OTHERS = ("transformers", "huggingface_hub", "datasets", "accelerate", "tinyseq", "peft", "safetensors", "tokenizers")
server: subprocess.Popen | None = None


def run(command, *, cwd=None, env=None, timeout=300) -> subprocess.CompletedProcess:
    """Runs `[sys.executable, ...]` as `subprocess.run(..., capture_output=True, text=True)` does.

    Raises:
        subprocess.TimeoutExpired: It took longer; it and what it has started are killed.
    """
    global server
    if server is None or server.poll() is not None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        here = os.path.dirname(__file__)
        code = f"import sys; sys.path.insert(0, {here!r}); import fresh; fresh.serve()"
        server = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**inherited, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        places = {name: str(Path(folder, name)) for name in ("in", "out", "err")}
        Path(places["in"]).touch()  # nothing to read
        request = {"argv": [str(part) for part in command[1:]], "cwd": str(cwd or os.getcwd()),
                   "env": dict(os.environ if env is None else env), "timeout": timeout, **places}  # fmt: skip
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        out, err = (Path(places[name]).read_text(encoding="utf-8", errors="replace") for name in ("out", "err"))
    assert answer, f"the server ended\n{out}\n{err}"
    if (code := json.loads(answer)) is None:
        raise subprocess.TimeoutExpired(command, timeout, out, err)
    return subprocess.CompletedProcess(command, code, out, err)


def serve() -> None:
    """What the server does: it forks a process for each request, and waits for its end."""
    import importlib

    for name in LOADED_BEFORE:
        try:
            importlib.import_module(name)
        except ImportError:  # an oldest version may lack it
            continue
    early = [name for name in sys.modules if name.partition(".")[0] in OTHERS]
    assert not early, f"loaded too early: {early}"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers.close()
            sys.exit(become(request))
        answers.write(json.dumps(wait(pid, request["timeout"])) + "\n")
        answers.flush()


def wait(pid: int, seconds: float) -> int | None:
    """Returns the exit code of a process as `subprocess` has it, or `None` if it had to be killed."""
    end = time.monotonic() + seconds
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def become(request: dict) -> int:
    """Makes this process what the command describes, and returns its exit code."""
    os.setsid()
    for number, name in enumerate(("in", "out", "err")):
        descriptor = os.open(request[name], os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    how, *rest = request["argv"]
    own = [path for path in sys.path if path and path != os.path.dirname(__file__)]
    paths = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["" if how in ("-c", "-m") else os.path.dirname(how), *paths, *own]
    del sys.modules["fresh"]
    main = sys.modules["__main__"]
    try:
        if how == "-c":
            sys.argv = ["-c", *rest[1:]]
            main.__dict__.clear()
            main.__dict__.update(__name__="__main__", __builtins__=__builtins__)
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        elif how == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [how, *rest]
            runpy.run_path(how, run_name="__main__")
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
