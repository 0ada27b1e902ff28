"""Makes Transformers' common tests importable, and says at the end what was left out and why."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import upstream
from left_out import ADAPTED, LEFT_OUT


def pytest_configure(config: pytest.Config) -> None:
    upstream.provide(config.cache.mkdir("transformers-sdist"))
    if (package := find_spec("tests")) is None or package.origin is None:
        return
    # Transformers registers the marks of its tests in files that are not at hand
    files = [*Path(package.origin).parent.rglob("*.py"), Path(find_spec("transformers.testing_utils").origin)]
    marks = {mark for file in files for mark in re.findall(r"\bmark\.(\w+)", file.read_text(encoding="utf-8"))}
    known = set(dir(pytest.mark)) | {line.split(":")[0] for line in config.getini("markers")}
    for mark in sorted(marks - known):
        config.addinivalue_line("markers", f"{mark}: of Transformers' tests")


def pytest_report_header() -> str:
    return f"Transformers' common tests: {upstream.problem or upstream.origin}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if upstream.problem and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK  # everything was skipped, aloud, which is no failure


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.section("Transformers' common tests")
    terminalreporter.line(upstream.problem or f"from {upstream.origin}")
    for heading, table in (("Left out by tinyseq", LEFT_OUT), ("Run in a changed form", ADAPTED)):
        terminalreporter.line(f"{heading}: {len(table)}")
        for name, reason in table.items():
            terminalreporter.line(f"  {name}: {reason}")
    terminalreporter.line("What the library itself skips stands above as SKIPPED, with its reason.")
