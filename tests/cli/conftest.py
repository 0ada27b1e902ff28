"""A command that runs in the process of the test, and what its shell would see of it."""

import pytest

from tinyseq.cli import main as cli


@pytest.fixture
def run(capfdbinary, tmp_path, monkeypatch):
    """Runs a command in this process: returns exit code, standard output and standard error, as bytes."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments):
        capfdbinary.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse's
            code = stop.code
        return code, *capfdbinary.readouterr()

    return run_command
