"""Transformers' own common tests, of the version that is installed, made importable as the package `tests`.

They are no part of the installed library. They come from the folder that `TINYSEQ_TRANSFORMERS_TESTS` names (a git
checkout or an unpacked sdist), else from the sdist, which pip downloads once and pytest's cache keeps. Nothing of them
is in this repository.

The sdist holds `tests/test_*.py` and not the folders beside these. Where a file that they import is missing, the one
in `standins/` takes its place: it offers the names that are imported, and no tests.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import transformers

FOLDER_VARIABLE = "TINYSEQ_TRANSFORMERS_TESTS"
STANDINS = Path(__file__).parent / "standins"
FOLDERS = ("exporters", "generation", "utils", "fixtures")  # beside the common tests, in a checkout

origin = ""  # where the tests come from, for the header of the report
problem = ""  # why they could not be had
stood_in: list[str] = []  # which of their files are stand-ins


def provide(cache: Path) -> None:
    """Puts the common tests on `sys.path`; on failure `problem` says why.

    Args:
        cache: Folder that keeps the downloaded sdist.
    """
    global origin, problem
    root = Path(tempfile.mkdtemp(prefix="transformers-tests-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    try:
        if given := os.environ.get(FOLDER_VARIABLE):
            source = Path(given).expanduser()
            version = version_of(source)
            origin = f"{source}, version {version}"
            if version != transformers.__version__:
                origin += f" (installed is {transformers.__version__}: some failures may come from that)"
        else:
            source = unpack(sdist(cache), root / "sdist")
            origin = f"the sdist of Transformers {version_of(source)}"
        assemble(source / "tests", root / "tests")
    except (OSError, tarfile.TarError, subprocess.SubprocessError) as error:
        problem = f"Transformers' common tests can't be had: {error}"
        return
    sys.path.insert(0, str(root))


def need(file: str) -> None:
    """Skips the calling module, aloud, where `file` (`"test_modeling_common"`) of the common tests is not there."""
    if find_spec("tests") is None or find_spec(f"tests.{file}") is None:
        pytest.skip(problem or f"this Transformers has no tests/{file}.py", allow_module_level=True)


def version_of(source: Path) -> str:
    """Returns the version of the Transformers sources in the folder `source`."""
    text = (source / "src" / "transformers" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else "unknown"


def sdist(cache: Path) -> Path:
    """Returns the sdist of the installed version, downloaded into the folder `cache` if it is not there yet."""
    name = f"transformers-{transformers.__version__}.tar.gz"
    if not (cache / name).exists():
        # Aside, and then moved: an interrupted download never looks like a whole one
        with tempfile.TemporaryDirectory(dir=cache) as aside:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--no-deps", "--no-binary", ":all:", "--dest", aside]
            if find_spec("setuptools"):  # else pip fetches it, to ask the sdist for its name
                command.append("--no-build-isolation")
            result = subprocess.run(
                [*command, f"transformers=={transformers.__version__}"], capture_output=True, text=True, timeout=300
            )
            if result.returncode:
                lines = result.stderr.strip().splitlines() or ["no reason given"]
                raise OSError(f"`pip download` of its sdist says: {lines[-1]} (or set {FOLDER_VARIABLE})")
            (Path(aside) / name).replace(cache / name)
    return cache / name


def unpack(archive: Path, folder: Path) -> Path:
    """Returns the sources in `folder`, unpacked as far as they are needed here."""
    with tarfile.open(archive) as tar:
        wanted = [
            member
            for member in tar.getmembers()
            if re.match(r"[^/]+/(tests/|src/transformers/__init__\.py$)", member.name)
        ]
        tar.extractall(folder, wanted, filter="data")
    return next(folder.iterdir())


def assemble(source: Path, package: Path) -> None:
    """Copies the common tests in the folder `source` to the folder `package`, with stand-ins for what is missing."""
    package.mkdir()
    (package / "__init__.py").touch()  # a package proper: it must win over this repository's folder `tests`
    for file in source.glob("*.py"):
        shutil.copy(file, package)
    for name in FOLDERS:
        if (source / name).is_dir():
            shutil.copytree(source / name, package / name)
    for standin in sorted(STANDINS.rglob("*.*")):
        file = standin.relative_to(STANDINS)
        if standin.suffix != ".pyc" and not (package / file).exists():
            (package / file).parent.mkdir(exist_ok=True)
            shutil.copy(standin, package / file)
            stood_in.append(str(file))
