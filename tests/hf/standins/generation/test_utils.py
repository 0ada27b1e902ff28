"""Stands in for a file that Transformers' sdist leaves out: the names that the common tests import, without tests."""


class GenerationTesterMixin:
    """No tests."""
