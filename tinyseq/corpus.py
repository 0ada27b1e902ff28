"""Parallel text from anywhere, as checked pairs: a `datasets.Dataset` with two string columns, `source` and `target`.

In the order in which the data flows:

1. lines: `read_lines`, the one rule by which this package splits bytes into lines of text;
2. readers: aligned files, tables (TSV, CSV), JSON, Arrow (Parquet, data sets) -> sections of numbered rows;
3. the gate: the one place that stops at, drops or repairs what is not right, and counts it in a `Report`;
4. `load_corpus`: finds out what it was given, sends the rows through the gate and builds the `Dataset`.

The text, CSV and JSON readers of `datasets` are not used: they split lines at a lone carriage return, take a quote in
a TSV for quoting, read "NA" as nothing, and name no line when a row is bad.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, islice, zip_longest
from typing import Any, BinaryIO, NamedTuple, TypeVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm.auto import tqdm

STDIN = "-"
BUILT_IN = "grammar"
SPLIT_ALIASES = ("validation", "valid", "val", "dev")
JSON_NAMES = (".json", ".jsonl", ".ndjson")
LOOK_AHEAD = 100  # rows seen before the columns of a table, or the keys of JSON objects, are settled
ROWS_PER_CHUNK = 100_000  # rows held as Python strings before they become Arrow arrays
BIG_BYTES = 64 * 2**20  # from this size on a terminal is shown a progress bar
PLACES_SHOWN = 5

SOURCE_BLANK, TARGET_BLANK, BOTH_BLANK = "source side blank", "target side blank", "both sides blank"
REPAIRED = "kept, invalid UTF-8 replaced by U+FFFD"

T = TypeVar("T")


class CorpusError(ValueError):
    """A corpus, or an argument that describes it, cannot be used; the message says where, why and what to do."""


@dataclass
class Report:
    """How many rows were dropped or repaired, why, and the first few places (`file:line`) of each reason."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """Counts one row."""
        self.counts[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < PLACES_SHOWN:
            places.append(place)

    @property
    def dropped(self) -> int:
        """Number of rows that are not among the pairs."""
        return self.counts.total() - self.counts[REPAIRED]

    def __str__(self) -> str:
        """One table, a line per reason, the most frequent first; empty if every row was taken as it was."""
        width = max(map(len, self.counts), default=0)
        lines = [f"{'rows':>9}  {'what':<{width}}  first places"]
        for reason, count in self.counts.most_common():
            more = ", ..." if count > len(self.places[reason]) else ""
            lines.append(f"{count:>9,}  {reason:<{width}}  {', '.join(self.places[reason])}{more}")
        return "\n".join(lines) if self.counts else ""


@dataclass
class Corpus:
    """Checked pairs (columns `source` and `target`) and what was dropped to get them."""

    pairs: datasets.Dataset
    report: Report


class _Section(NamedTuple):
    """Rows (number, source, target) of one file, pair of files or data set; a prefix and the number make a place."""

    source_prefix: str
    target_prefix: str
    rows: Iterator[tuple[int, str, str]]


class _Gate:
    """Decides what becomes of bytes and rows that are not right: stop with an error, or count them in the report."""

    def __init__(self, on_bad_row: str = "stop", on_bad_bytes: str = "stop") -> None:
        for argument, value, allowed in (
            ("on_bad_row", on_bad_row, ("stop", "skip")),
            ("on_bad_bytes", on_bad_bytes, ("stop", "replace")),
        ):
            if value not in allowed:
                raise CorpusError(f"{argument}={value!r} is not allowed; choose one of {_listed(allowed)}.")
        self.on_bad_row = on_bad_row
        self.on_bad_bytes = on_bad_bytes
        self.report = Report()

    def decode(self, raw: bytes, prefix: str, number: int) -> str:
        """Text of UTF-8 bytes; `prefix` and `number` say where they are."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.on_bad_bytes == "stop":
                raise CorpusError(
                    f"{prefix}{number}: byte {error.start + 1} of this line (0x{raw[error.start]:02x}) is not valid "
                    f"UTF-8: {error.reason}. Convert the file (iconv -f latin1 -t utf-8, if it is Latin-1), or leave "
                    "such bytes out (iconv -c -f utf-8 -t utf-8). From Python, "
                    'on_bad_bytes="replace" puts U+FFFD there.'
                ) from error
        self.report.add(REPAIRED, f"{prefix}{number}")
        return raw.decode(errors="replace")

    def bad_row(self, place: str, reason: str, detail: str) -> None:
        """Stops at a row that cannot be read as a pair, or counts it."""
        if self.on_bad_row == "stop":
            raise CorpusError(
                f'{place}: {reason}: {detail}. Correct it, or pass on_bad_row="skip" to leave such rows out.'
            )
        self.report.add(reason, f"{place} ({detail})")

    def is_blank_row(self, texts: Sequence[str], place: str) -> bool:
        """Whether a row has neither text nor structure. Such a row is counted as a blank pair, never an error."""
        is_blank = all(map(_is_blank, texts))
        if is_blank:
            self.report.add(BOTH_BLANK, place)
        return is_blank

    def checked(self, section: _Section) -> Iterator[tuple[str, str]]:
        """The pairs that have text on both sides. A blank side drops both: else all later pairs would shift."""
        for number, source, target in section.rows:
            if _is_blank(source):
                reason = BOTH_BLANK if _is_blank(target) else SOURCE_BLANK
                self.report.add(reason, f"{section.source_prefix}{number}")
            elif _is_blank(target):
                self.report.add(TARGET_BLANK, f"{section.target_prefix}{number}")
            else:
                yield source, target


class _Sides(NamedTuple):
    """The caller's `source` and `target`: names, or numbers, of columns or keys. Both are given, or neither."""

    source: str | None
    target: str | None

    def among(self, found: Sequence[str], where: str) -> tuple[str, str]:
        """The names of the source and the target among those found."""
        if self.source is None or self.target is None:
            if "source" in found and "target" in found:
                return "source", "target"
            if len(found) == 2:
                return found[0], found[1]
            raise CorpusError(
                f"{where}: cannot tell the source from the target among {_listed(found)}; give source= and target=."
            )
        for argument, wanted in (("source", self.source), ("target", self.target)):
            if wanted not in found:
                raise CorpusError(
                    f"{where}: {argument}={wanted!r} is not there; found {_listed(found)}.{_suggestion(wanted, found)}"
                )
        return self.source, self.target


def _suggestion(wanted: str, found: Sequence[str]) -> str:
    """Offers the name most like the wanted one: one that it starts with ('en' for 'en_XX'), or by common letters."""

    def likeness(name: str) -> tuple[bool, float]:
        a, b = wanted.lower(), name.lower()
        return a.startswith(b), SequenceMatcher(None, a, b).ratio()

    nearest = max(found, key=likeness, default="")
    return f" Did you mean {nearest!r}?" if nearest and likeness(nearest) >= (False, 0.5) else ""


def _listed(names: Iterable[object]) -> str:
    return ", ".join(repr(str(name)) for name in names) or "none"


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


# Lines ---------------------------------------------------------------------------------------------------------------


def read_lines(path: str | os.PathLike[str], *, on_bad_bytes: str = "stop") -> Iterator[str]:
    """The lines of a UTF-8 text file, split at LF only, so that there are as many as `wc -l` counts.

    A last line without LF counts too. CR before LF is removed, as is a byte-order mark. A lone CR, U+2028, U+2029,
    U+0085 and the like are text and stay inside their line. Gzip is recognised by its first bytes, not by name.

    Args:
        path: A file, or "-" for standard input.
        on_bad_bytes: "stop" raises at bytes that are not UTF-8, naming file, line and byte; "replace" puts U+FFFD.

    Raises:
        CorpusError: The file is missing (at once), or not UTF-8 or a damaged gzip file (when the reading gets there).
    """
    path = os.fspath(path)
    gate = _Gate(on_bad_bytes=on_bad_bytes)
    if path != STDIN:
        _check_file(path)
    return (line for _, line in _numbered_lines(path, gate))


def _check_file(path: str) -> None:
    if not os.path.exists(path):
        raise CorpusError(f"{path}: there is no such file (looked from {os.getcwd()}).")
    if os.path.isdir(path):
        raise CorpusError(f"{path}: is a folder where a file is needed.")
    if not os.access(path, os.R_OK):
        raise CorpusError(f"{path}: may not be read; change its permissions.")


def _numbered_lines(path: str, gate: _Gate) -> Iterator[tuple[int, str]]:
    prefix = f"{path}:"
    with _open_bytes(path) as stream:
        for number, raw in enumerate(stream, start=1):
            if raw.endswith(b"\n"):
                raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
            line = gate.decode(raw, prefix, number)
            yield number, line.removeprefix("\ufeff") if number == 1 else line


@contextmanager
def _open_bytes(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed. What goes wrong, here or while they are read, is told with its name."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as raw:
            stream: Any = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
            if stream.peek(2).startswith(b"\x1f\x8b"):
                stream = io.BufferedReader(gzip.GzipFile(fileobj=stream))
            if _looks_like_utf16(stream.peek(4096)[:4096]):
                raise CorpusError(
                    f"{path}: looks like UTF-16, not UTF-8. Convert it first: iconv -f utf-16 -t utf-8 {path}"
                )
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path}: damaged gzip file: {error}. Fetch or make it again.") from error
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}.") from error


def _looks_like_utf16(head: bytes) -> bool:
    """Whether bytes start with a UTF-16 mark, or have NULs at one parity only, one of them beside each LF.

    The pattern needs a few characters below U+0100, such as spaces. UTF-8 with a NUL here and there does not show it.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    at_even, at_odd = head[0::2].count(0), head[1::2].count(0)
    if min(at_even, at_odd) > 0 or max(at_even, at_odd) < 3:
        return False
    return head.count(b"\n") == head.count(b"\0\n" if at_even else b"\n\0")


# Readers -------------------------------------------------------------------------------------------------------------


def _aligned_rows(source_path: str, target_path: str, gate: _Gate) -> Iterator[tuple[int, str, str]]:
    sources, targets = _numbered_lines(source_path, gate), _numbered_lines(target_path, gate)
    for source, target in zip_longest(sources, targets):
        if source is None or target is None:
            number, _ = source or target
            longer = number + sum(1 for _ in chain(sources, targets))
            counts = (longer, number - 1) if target is None else (number - 1, longer)
            raise CorpusError(
                f"{source_path} has {counts[0]:,} lines and {target_path} has {counts[1]:,}; line n of one must "
                "translate line n of the other, so both need the same number (leave a line empty for what is missing)."
            )
        yield source[0], source[1], target[1]


def _tsv_records(path: str, gate: _Gate) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line. A quote is text: one that nobody closed must not glue rows together."""
    for number, line in _numbered_lines(path, gate):
        yield number, line.split("\t")


def _csv_records(path: str, gate: _Gate) -> Iterator[tuple[int, list[str]]]:
    """Fields of each RFC 4180 record, with the line it begins on. A line end inside quotes is given as LF."""
    # `csv` refuses a lone CR; a lone surrogate stands for it meanwhile, since decoded UTF-8 never holds one.
    lines = (line.replace("\r", "\udc0d") + "\n" for _, line in _numbered_lines(path, gate))
    reader = csv.reader(lines, strict=True)
    begin = 1
    try:
        for record in reader:
            yield begin, [text.replace("\udc0d", "\r") for text in record]
            begin = reader.line_num + 1
    except csv.Error as error:  # never skipped: nobody knows how many rows an open quote has swallowed
        raise CorpusError(
            f"{path}:{begin}: the quotes of the CSV row that begins here are not balanced ({error}, at line "
            f"{reader.line_num}). Close the quote, and double each quote inside a quoted field."
        ) from error


def _table_rows(path: str, is_csv: bool, sides: _Sides, gate: _Gate) -> Iterator[tuple[int, str, str]]:
    """Rows of a TSV or CSV table. A row with more or fewer columns than the header, or most first rows, is bad."""
    records = _csv_records(path, gate) if is_csv else _tsv_records(path, gate)
    records = (record for record in records if not gate.is_blank_row(record[1], f"{path}:{record[0]}"))
    head = list(islice(records, LOOK_AHEAD))
    if not head:
        return
    first = head[0][1]
    width = Counter(len(fields) for _, fields in head).most_common(1)[0][0]
    source_column, target_column, has_header = _table_columns(path, is_csv, sides, first, width)
    if has_header:
        width = len(head.pop(0)[1])
    for number, fields in chain(head, records):
        if len(fields) == width:
            yield number, fields[source_column], fields[target_column]
        else:
            gate.bad_row(f"{path}:{number}", "wrong number of columns", f"{len(fields)} where the table has {width}")


def _table_columns(path: str, is_csv: bool, sides: _Sides, first: list[str], width: int) -> tuple[int, int, bool]:
    """Indices of the source and the target column, and whether the first row is a header with their names."""
    names = (sides.source or "source", sides.target or "target")
    if names[0] in first and names[1] in first:
        return first.index(names[0]), first.index(names[1]), True
    if sides.source is None:
        if width == 2 or (width > 2 and not is_csv):
            return 0, 1, False
        raise CorpusError(
            f"{path}: has {width} column(s), the first row being {_listed(first)}; expected two columns separated by "
            f"a {'comma' if is_csv else 'tab'}, or source= and target= with the name or number of a column each."
        )
    if not all(name.isdecimal() and 1 <= int(name) <= width for name in names):
        sides.among(first, f"{path}: columns of the first line (or give numbers from 1 to {width})")  # raises
    return int(names[0]) - 1, int(names[1]) - 1, False


def _json_rows(
    values: Iterator[tuple[int, Any]], prefix: str, sides: _Sides, gate: _Gate
) -> Iterator[tuple[int, str, str]]:
    """Rows of JSON objects, flat or under `translation`. The first ones settle the keys, in order of appearance."""
    objects = _json_objects(values, prefix, gate)
    head = list(islice(objects, LOOK_AHEAD))
    if not head:
        return
    found = list(dict.fromkeys(key for _, value in head for key in value))
    source_key, target_key = sides.among(found, f"{prefix}{head[0][0]} and after: keys")
    for number, value in chain(head, objects):
        fault = _json_text_fault(value, source_key) or _json_text_fault(value, target_key)
        if fault:
            gate.bad_row(f"{prefix}{number}", *fault)
        else:
            yield number, value[source_key] or "", value[target_key] or ""


def _json_objects(values: Iterator[tuple[int, Any]], prefix: str, gate: _Gate) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, value in values:
        if isinstance(value, dict):
            inner = value.get("translation")
            yield number, inner if isinstance(inner, dict) else value
        else:
            gate.bad_row(f"{prefix}{number}", "not a JSON object", f"found a {type(value).__name__}")


def _json_text_fault(value: dict[str, Any], key: str) -> tuple[str, str] | None:
    """Reason and detail if an object has no usable text for a key. Null is usable: it is a blank side."""
    if key not in value:
        return "key missing", f"no {key!r} among {_listed(value)}"
    text = value[key]
    if text is not None and not isinstance(text, str):
        return "not a string", f"{key!r} holds a {type(text).__name__}"
    if text and not text.isascii() and re.search("[\ud800-\udfff]", text):
        return "not a character", f"{key!r} holds one half of a surrogate pair"
    return None


def _json_line_values(path: str, gate: _Gate) -> Iterator[tuple[int, Any]]:
    for number, line in _numbered_lines(path, gate):
        if gate.is_blank_row([line], f"{path}:{number}"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            gate.bad_row(f"{path}:{number}", "malformed JSON", _json_fault(error))
        else:
            yield number, value


def _json_array_values(path: str, gate: _Gate) -> Iterator[tuple[int, Any]]:
    """The items of one JSON array. After a malformed one the next cannot be found, so that is never skipped."""
    text = "\n".join(line for _, line in _numbered_lines(path, gate))
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f"{path}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else path
        raise CorpusError(f"{place}: malformed JSON: {_json_fault(error)}. Correct the array.") from error
    yield from enumerate(values, start=1)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_fault(error: Exception) -> str:
    return f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)


def _parquet_rows(path: str, sides: _Sides, gate: _Gate) -> Iterator[tuple[int, str, str]]:
    try:
        with pq.ParquetFile(path) as table:
            features = datasets.Features.from_arrow_schema(table.schema_arrow)
            yield from _arrow_rows(table.iter_batches(), features, f"{path} row ", sides, gate)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path}: not a readable Parquet file: {error}") from error


def _arrow_rows(
    batches: Iterable[pa.Table | pa.RecordBatch], features: datasets.Features, prefix: str, sides: _Sides, gate: _Gate
) -> Iterator[tuple[int, str, str]]:
    """Rows of a `translation` column with a text per language, or of two columns of text. Null is a blank side."""
    columns: dict[str, Any] = dict(features)
    translation = features.get("translation")
    is_nested = isinstance(translation, dict | datasets.Translation)
    if isinstance(translation, datasets.Translation):  # in its own order: Arrow has sorted the languages
        columns = dict.fromkeys(translation.languages, datasets.Value("string"))
    elif is_nested:
        columns = translation
    where = prefix.removesuffix(" row ")
    keys = sides.among(list(columns), f"{where}: {'languages' if is_nested else 'columns'}")
    for key in keys:
        if not isinstance(columns[key], datasets.Value) or "string" not in columns[key].dtype:
            raise CorpusError(f"{where}: {key!r} holds {columns[key]}, not text; choose others with source=, target=.")
    number = 0
    for batch in batches:
        sources, targets = (pc.struct_field(batch["translation"], key) if is_nested else batch[key] for key in keys)
        for source, target in zip(_utf8(sources), _utf8(targets), strict=True):
            number += 1
            yield number, gate.decode(source, prefix, number), gate.decode(target, prefix, number)


def _utf8(column: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """The bytes of Arrow strings, which nobody has checked to be UTF-8."""
    return [text or b"" for text in column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()]


# From what the caller gave to sections -------------------------------------------------------------------------------


def _aligned_section(source_path: str, target_path: str, gate: _Gate) -> _Section:
    _check_file(source_path)
    _check_file(target_path)
    return _Section(f"{source_path}:", f"{target_path}:", _aligned_rows(source_path, target_path, gate))


def _file_section(path: str, sides: _Sides, gate: _Gate) -> _Section:
    """Rows of one file, whose kind its content tells, and its name only where the content leaves a choice."""
    _check_file(path)
    if not os.path.isfile(path):
        raise CorpusError(f"{path}: is a pipe or a device, and must be read twice; save it to a file first.")
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        return _Section(f"{path} row ", f"{path} row ", _parquet_rows(path, sides, gate))

    lines = (line.strip() for _, line in _numbered_lines(path, _Gate(on_bad_bytes="replace")) if not _is_blank(line))
    first, second = [*islice(lines, 2), "", ""][:2]
    kind = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    opens_json = first.startswith(("{", "[")) and (_is_json(first) or _is_json(first.rstrip(",") + "]"))
    if not opens_json and kind not in JSON_NAMES:
        return _Section(f"{path}:", f"{path}:", _table_rows(path, kind == ".csv", sides, gate))
    if first.startswith("[") and not (second and _is_json(first)):  # else a list is one (bad) line among several
        prefix, values = f"{path} item ", _json_array_values(path, gate)
    else:
        prefix, values = f"{path}:", _json_line_values(path, gate)
    return _Section(prefix, prefix, _json_rows(values, prefix, sides, gate))


def _folder_sections(path: str, sides: _Sides, gate: _Gate, split: str, name: str | None) -> Iterable[_Section]:
    """Rows of a local data set: as `save_to_disk` leaves one, or in any form that `load_dataset` finds files in.

    For JSON, tables and Parquet, `datasets` says which files are in the split, and the readers above read them.
    """
    saved = (datasets.config.DATASET_STATE_JSON_FILENAME, datasets.config.DATASETDICT_JSON_FILENAME)
    if any(os.path.isfile(os.path.join(path, file)) for file in saved):
        if name is not None:
            raise CorpusError(f"{path}: name={name!r} has no meaning for a data set saved to disk; leave it out.")
        return [_data_set_section(_loaded(path, lambda: datasets.load_from_disk(path)), path, sides, gate, split)]

    full = os.path.abspath(path)  # else a folder called "json" would be taken for the reader of that name
    with tempfile.TemporaryDirectory() as cache:
        builder = _loaded(path, lambda: datasets.load_dataset_builder(full, name, cache_dir=cache))
        files_of = {str(key): list(files) for key, files in (builder.config.data_files or {}).items()}
        if builder.name in ("json", "csv", "text", "parquet") and files_of:
            files = files_of[_find_split(files_of, split, path)]
            if all(map(os.path.isfile, files)):  # not addresses
                shown = [os.path.join(path, os.path.relpath(file, full)) for file in files]
                return (_file_section(file, sides, gate) for file in shown)
        # Into memory, so that no cache needs to stay.
        loaded = _loaded(path, lambda: datasets.load_dataset(full, name, cache_dir=cache, keep_in_memory=True))
    return [_data_set_section(loaded, path, sides, gate, split)]


def _data_set_section(
    loaded: datasets.Dataset | datasets.DatasetDict | datasets.IterableDatasetDict,
    path: str,
    sides: _Sides,
    gate: _Gate,
    split: str,
) -> _Section:
    if isinstance(loaded, dict):
        split = _find_split(loaded, split, path)
        loaded, path = loaded[split], f"{path} {split}"
    prefix = f"{path} row "
    batches = loaded.with_format("arrow").iter(batch_size=10_000)
    if loaded.features is not None:
        return _Section(prefix, prefix, _arrow_rows(batches, loaded.features, prefix, sides, gate))
    return _Section(prefix, prefix, _streamed_rows(batches, path, prefix, sides, gate))


def _streamed_rows(
    batches: Iterator[pa.Table], path: str, prefix: str, sides: _Sides, gate: _Gate
) -> Iterator[tuple[int, str, str]]:
    """Rows of a data set whose columns are known only when its first rows have come."""
    first = next(batches, None)
    if first is not None:
        features = datasets.Features.from_arrow_schema(first.schema)
        yield from _arrow_rows(chain([first], batches), features, prefix, sides, gate)


def _find_split(splits: Iterable[str], wanted: str, path: str) -> str:
    found = [str(split) for split in splits]
    for split in (wanted, *SPLIT_ALIASES) if wanted in SPLIT_ALIASES else (wanted,):
        if split in found:
            return split
    raise CorpusError(f"{path}: split={wanted!r} is not there; found {_listed(found)}.")


def _loaded(path: str, load: Callable[[], T]) -> T:
    """What a function of `datasets` returns, without progress bars where nobody watches; errors name the data set."""
    is_quiet = not sys.stderr.isatty() and not datasets.utils.are_progress_bars_disabled()
    try:
        if is_quiet:
            datasets.disable_progress_bars()
        return load()
    except Exception as error:
        raise CorpusError(f"{path}: `datasets` cannot load it: {type(error).__name__}: {error}") from error
    finally:
        if is_quiet:
            datasets.enable_progress_bars()


def _built_in_section(sides: _Sides, split: str) -> _Section:
    """The generated English-Spanish corpus; its columns may also be named by language."""
    from . import grammar

    source, _ = sides.among(("source", "target", "en", "es"), BUILT_IN)
    pairs = grammar.generate(split="validation" if split in SPLIT_ALIASES else split)
    texts = ((pair.source, pair.target) for pair in pairs)
    if source in ("target", "es"):
        texts = ((pair.target, pair.source) for pair in pairs)
    prefix = f"{BUILT_IN} {split} row "
    return _Section(prefix, prefix, ((number, *text) for number, text in enumerate(texts, start=1)))


def is_on_hub(files: Sequence[str] | None) -> bool:
    """Whether `files`, as they are given to `load_corpus`, are one name, that of a data set on the Hub."""
    return files is not None and len(files) == 1 and is_hub_name(files[0])


def is_hub_name(path: str) -> bool:
    """Whether `path`, which is no local file or folder, can be the name of a data set on the Hub."""
    is_file_name = path.lower().endswith((".gz", ".txt", ".tsv", ".csv", ".parquet", *JSON_NAMES))
    is_local = os.path.exists(path) or os.path.isdir(os.path.dirname(path))
    return re.fullmatch(r"\w[\w.-]*/[\w.-]+", path) is not None and not is_file_name and not is_local


def load_corpus(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    source: str | None = None,
    target: str | None = None,
    split: str = "train",
    on_bad_row: str = "stop",
    on_bad_bytes: str = "stop",
    revision: str | None = None,
    name: str | None = None,
    streaming: bool = False,
) -> Corpus:
    """Reads parallel text into checked pairs. Text is kept as it is, outer spaces and control characters too.

    A pair with a blank side (empty, only white space, or null) is always dropped, as a pair, and counted in the
    report.

    Args:
        files: Two paths: aligned text files, line n of one being the translation of line n of the other. One path: a
            TSV (its quotes are text), CSV, JSON lines, JSON array or Parquet file; a local data set folder; or a Hub
            id "owner/name". Text may be gzipped. "grammar" is the built-in corpus (a file of that name: "./grammar").
        source: Column or language key of the source side; also the number of a column (from 1) of a table without
            header. Not needed if there are just two columns, or columns `source` and `target`, or for the first two
            of a TSV. Two aligned files have no such names, so that it is not used.
        target: The same for the target side.
        split: Split of a data set; `validation`, `valid`, `val` and `dev` stand in for each other. A file, or a
            single `Dataset` saved to disk, has no splits, and is read whole.
        on_bad_row: "stop" raises at the first row that is no pair (malformed JSON, wrong number of columns, not
            text); "skip" leaves such rows out and counts them.
        on_bad_bytes: "stop" raises at bytes that are not UTF-8; "replace" puts U+FFFD there and counts the lines.
        revision: Branch, tag or commit of a Hub data set.
        name: Configuration of a data set that has several.
        streaming: Read a Hub data set over the network as it is needed, without a copy on the disk.

    Raises:
        CorpusError: A `ValueError` naming the argument, or file and line, and what to do.
    """
    gate = _Gate(on_bad_row, on_bad_bytes)
    if (source is None) != (target is None) or (source is not None and source == target):
        raise CorpusError(f"source={source!r} and target={target!r}: give two different names, or neither.")
    sides = _Sides(source, target)
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    paths = [os.fspath(path) for path in given]
    if len(paths) not in (1, 2):
        raise CorpusError(f"files: got {len(paths)} paths ({_listed(paths)}); give one, or two aligned text files.")
    path = paths[0]
    is_built_in = given == [BUILT_IN]  # a Path of that name is not equal to it
    is_folder = len(paths) == 1 and not is_built_in and os.path.isdir(path)
    is_hub_id = is_on_hub(paths) and not is_built_in
    for argument, value, is_usable in (
        ("revision", revision, is_hub_id),
        ("name", name, is_hub_id or is_folder),
        ("streaming", streaming or None, is_hub_id),
    ):
        if value is not None and not is_usable:
            raise CorpusError(f"{argument}={value!r} has no meaning for {_listed(paths)}; leave it out.")

    sections: Iterable[_Section]
    if len(paths) == 2:
        sections = [_aligned_section(paths[0], paths[1], gate)]
    elif is_built_in:
        sections = [_built_in_section(sides, split)]
    elif is_folder:
        sections = _folder_sections(path, sides, gate, split, name)
    elif is_hub_id:
        where = f"{path} (no such local file, so taken for a Hub data set)"
        loaded = _loaded(where, lambda: datasets.load_dataset(path, name, revision=revision, streaming=streaming))
        sections = [_data_set_section(loaded, path, sides, gate, split)]
    else:
        sections = [_file_section(path, sides, gate)]

    is_big = sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) >= BIG_BYTES
    pairs = chain.from_iterable(gate.checked(section) for section in sections)
    disable = None if is_big else True  # None: shown on a terminal only
    dataset = _to_dataset(tqdm(pairs, desc="Reading pairs", unit=" pairs", disable=disable))
    if not len(dataset):
        raise CorpusError(f"{', '.join(paths)}: there are no pairs in it.\n{gate.report}".rstrip())
    return Corpus(dataset, gate.report)


def _to_dataset(pairs: Iterable[tuple[str, str]]) -> datasets.Dataset:
    """An in-memory `Dataset`, built in chunks: Python strings take several times the room of Arrow's."""
    schema = pa.schema({"source": pa.string(), "target": pa.string()})
    rest, tables = iter(pairs), [schema.empty_table()]
    while chunk := list(islice(rest, ROWS_PER_CHUNK)):
        tables.append(pa.table(list(zip(*chunk, strict=True)), schema=schema))
    table = pa.concat_tables(tables)
    return datasets.Dataset.from_dict({column: table[column] for column in table.column_names})


def split_off(pairs: datasets.Dataset, most: int, seed: int = 0) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Returns `pairs` without a part, and that part: about `most` pairs, but never over a tenth.

    All pairs with one source (whatever its case and outer space) are on one side, so that no held-out source was seen
    in training. Which sources are held out depends on their text and the seed, not on the order of the pairs.

    Raises:
        CorpusError: There are too few pairs to hold any out.
    """
    most = min(most, len(pairs) // 10)
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(pairs["source"]):
        groups.setdefault(text.strip().casefold(), []).append(row)
    if most < 1 or len(groups) < 2:
        raise CorpusError(
            f"{len(pairs)} pairs with {len(groups)} different sources are too few to hold some out for validation; "
            f"give validation pairs of their own"
        )
    by_hash = sorted(
        groups, key=lambda text: hashlib.blake2b(f"{seed}\n{text}".encode(errors="surrogatepass")).digest()
    )
    held_out: set[int] = set()
    for text in by_hash[:-1]:
        if len(held_out) >= most:
            break
        held_out.update(groups[text])
    kept = [row for row in range(len(pairs)) if row not in held_out]
    return pairs.select(kept), pairs.select(sorted(held_out))
