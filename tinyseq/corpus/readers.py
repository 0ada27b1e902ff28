# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Files of parallel text -> sections of numbered rows, read as they are asked for (but a JSON array as a whole).

1. lines: `read_lines`, the one rule by which this package splits bytes into lines of text;
2. readers: aligned files, tables (TSV, CSV), JSON, Arrow (Parquet, data sets). A row is a pair of texts, or a `Fault`
   that says why it is none: what becomes of it is not decided here.

The text, CSV and JSON readers of `datasets` are not used: they split lines at a lone carriage return, take a quote in
a TSV for quoting, read "NA" as nothing, and name no line when a row is bad.
"""

import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from difflib import SequenceMatcher
from itertools import chain, islice, zip_longest
from typing import Any, BinaryIO, NamedTuple, TypeVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

STDIN = "-"
JSON_NAMES = (".json", ".jsonl", ".ndjson")
PACKED = {  # how files begin that are no text: what packed them, and what unpacks them
    rb"BZh[1-9]1AY&SY": ("bzip2", "bunzip2"),
    rb"\xfd7zXZ\0": ("xz", "unxz"),
    rb"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    rb"PK\x03\x04": ("zip", "unzip"),  # .xlsx, .ods and .docx are such, too
}
ROWS_AT_ONCE = 1_000  # of a Parquet file or data set, that become Python strings together
LOOK_AHEAD = 100  # rows seen before the columns of a table, or the keys of JSON objects, are settled

T = TypeVar("T", bound=tuple[int, Any])  # a number, and what is there


class CorpusError(ValueError):
    """A corpus, or an argument that describes it, cannot be used; the message says where, why and what to do."""


class Fault(NamedTuple):
    """Why a row is no pair of texts."""

    reason: str
    detail: str


BLANK = ("", "")
Row = tuple[int, tuple[str, str] | Fault]  # its number, as a place in a message has it, and its texts


class Section(NamedTuple):
    """Rows of one file, pair of files or data set; a prefix and a row's number make a place."""

    prefix: str
    rows: Iterator[Row]
    target_prefix: str = ""  # where the targets are in a file of their own

    def place(self, number: int, in_target: bool = False) -> str:
        """Where a row is, for a message: in the file of its source, which may be that of its target too."""
        return f"{(in_target and self.target_prefix) or self.prefix}{number}"


NO_UTF8 = re.compile("[\udc80-\udcff]")  # how `Decoder` marks bytes of a row that is to be left out


class Decoder:
    """Decides what becomes of bytes that are not UTF-8: stop with an error, leave the row out, or put U+FFFD there.

    Args:
        on_bad_bytes: "stop"; "skip", which marks the bytes (see `NO_UTF8`), so that the row can be left out; or
            "replace".
        repaired: Is called with the place of each line or row in which bytes were replaced.
    """

    def __init__(self, on_bad_bytes: str = "stop", repaired: Callable[[str], None] = lambda place: None) -> None:
        check_choice("on_bad_bytes", on_bad_bytes, ("stop", "skip", "replace"))
        self.on_bad_bytes = on_bad_bytes
        self.repaired = repaired

    def decode(self, raw: bytes, prefix: str, number: int) -> str:
        """Text of UTF-8 bytes; `prefix` and `number` say where they are."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.on_bad_bytes == "stop":
                raise CorpusError(
                    f"{prefix}{number}: byte {error.start + 1} of this line (0x{raw[error.start]:02x}) is not valid "
                    f"UTF-8: {error.reason}. Convert the file (iconv -f latin1 -t utf-8, if it is Latin-1), or leave "
                    'such bytes out (iconv -c -f utf-8 -t utf-8). on_bad_row="skip", where there is this option, '
                    "leaves such rows out."
                ) from error
            if self.on_bad_bytes == "skip":
                return raw.decode(errors="surrogateescape")
        self.repaired(f"{prefix}{number}")
        return raw.decode(errors="replace")


Part = Callable[[Decoder], Section]  # opens what is read in one go: a file, a shard, a data set


class Sides(NamedTuple):
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
                f"{where}: cannot tell the source from the target among {listed(found)}; give source= and target=."
            )
        for argument, wanted in (("source", self.source), ("target", self.target)):
            if wanted not in found:
                raise CorpusError(
                    f"{where}: {argument}={wanted!r} is not there; found {listed(found)}.{_suggestion(wanted, found)}"
                )
        return self.source, self.target


def _suggestion(wanted: str, found: Sequence[str]) -> str:
    """Offers the name most like the wanted one: one that it starts with ('en' for 'en_XX'), or by common letters."""

    def likeness(name: str) -> tuple[bool, float]:
        a, b = wanted.lower(), name.lower()
        return a.startswith(b), SequenceMatcher(None, a, b).ratio()

    nearest = max(found, key=likeness, default="")
    return f" Did you mean {nearest!r}?" if nearest and likeness(nearest) >= (False, 0.5) else ""


def listed(names: Iterable[object]) -> str:
    """The names, as a message shows them."""
    return ", ".join(repr(str(name)) for name in names) or "none"


def is_white(text: str) -> bool:
    """Whether there is nothing but white space."""
    return not text or text.isspace()


def check_choice(argument: str, value: str, allowed: Sequence[str]) -> None:
    """Refuses what is not among the values of an argument."""
    if value not in allowed:
        raise CorpusError(f"{argument}={value!r} is not allowed; choose one of {listed(allowed)}.")


# Lines ---------------------------------------------------------------------------------------------------------------


def read_lines(path: str | os.PathLike[str], *, on_bad_bytes: str = "stop") -> Iterator[str]:
    """The lines of a UTF-8 text file, split at LF only, so that there are as many as `wc -l` counts.

    A last line without LF counts too. CR before LF is removed, as is a byte-order mark. A lone CR, U+2028, U+2029,
    U+0085 and the like are text and stay inside their line. Gzip is recognised by its first bytes, not by name.

    Args:
        path: A file, or "-" for standard input.
        on_bad_bytes: "stop" raises at bytes that are not UTF-8, naming file, line and byte; "replace" puts U+FFFD.

    Raises:
        CorpusError: The file is missing (at once), or not UTF-8, a damaged gzip file or packed otherwise (when the
            reading gets there).
    """
    path = os.fspath(path)
    decoder = Decoder(on_bad_bytes)
    if path != STDIN:
        check_file(path)
    return (line for _, line in _numbered_lines(path, decoder))


def check_file(path: str) -> None:
    """Refuses a file that is not there, or can't be read."""
    if not os.path.exists(path):
        raise CorpusError(f"{path}: there is no such file (looked from {os.getcwd()}).")
    if os.path.isdir(path):
        raise CorpusError(f"{path}: is a folder where a file is needed.")
    if not os.access(path, os.R_OK):
        raise CorpusError(f"{path}: may not be read; change its permissions.")


def _numbered_lines(path: str, decoder: Decoder) -> Iterator[tuple[int, str]]:
    prefix = f"{path}:"
    with _open_bytes(path) as stream:
        for number, raw in enumerate(stream, start=1):
            if raw.endswith(b"\n"):
                raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
            line = decoder.decode(raw, prefix, number)
            yield number, line.removeprefix("\ufeff") if number == 1 else line


@contextmanager
def _open_bytes(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed. What goes wrong, here or while they are read, is told with its name."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as raw:
            stream: Any = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
            if stream.peek(2).startswith(b"\x1f\x8b"):
                stream = io.BufferedReader(gzip.GzipFile(fileobj=stream))
            for mark, (packer, unpacker) in PACKED.items():
                if re.match(mark, stream.peek(16)):
                    raise CorpusError(
                        f"{path}: is packed by {packer}; text is read plain or packed by gzip. Unpack it first: "
                        f"{unpacker} {path}"
                    )
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


def _aligned_rows(source_path: str, target_path: str, decoder: Decoder) -> Iterator[Row]:
    sources, targets = _numbered_lines(source_path, decoder), _numbered_lines(target_path, decoder)
    for source, target in zip_longest(sources, targets):
        if source is None or target is None:
            number, _ = source or target
            longer = number + sum(1 for _ in chain(sources, targets))
            counts = (longer, number - 1) if target is None else (number - 1, longer)
            raise CorpusError(
                f"{source_path} has {counts[0]:,} lines and {target_path} has {counts[1]:,}; line n of one must "
                "translate line n of the other, so both need the same number (leave a line empty for what is missing)."
            )
        yield source[0], (source[1], target[1])


def _tsv_records(path: str, decoder: Decoder) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line. A quote is text: one that nobody closed must not glue rows together."""
    for number, line in _numbered_lines(path, decoder):
        yield number, line.split("\t")


def _csv_records(path: str, decoder: Decoder) -> Iterator[tuple[int, list[str]]]:
    """Fields of each RFC 4180 record, with the line it begins on. A line end inside quotes is given as LF."""
    # `csv` refuses a lone CR; a lone surrogate stands for it meanwhile, since decoded UTF-8 never holds one.
    lines = (line.replace("\r", "\udc0d") + "\n" for _, line in _numbered_lines(path, decoder))
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


def _table_rows(path: str, is_csv: bool, sides: Sides, decoder: Decoder) -> Iterator[Row]:
    """Rows of a TSV or CSV table. A row with more or fewer columns than the header, or most first rows, is bad.

    A row without any text is a blank pair, never an error: the first ones do not settle the columns either.
    """
    records = _csv_records(path, decoder) if is_csv else _tsv_records(path, decoder)
    head, rows = _look_ahead(records, lambda fields: not all(map(is_white, fields)))
    if head:
        width = Counter(len(fields) for _, fields in head).most_common(1)[0][0]
        begin, first = head[0]
        source_column, target_column, has_header = _table_columns(path, is_csv, sides, first, width)
        if has_header:
            width = len(first)
            rows = (row for row in rows if row[0] != begin)
    for number, fields in rows:
        if head and len(fields) == width:
            yield number, (fields[source_column], fields[target_column])
        elif all(map(is_white, fields)):
            yield number, BLANK
        else:
            yield number, Fault("wrong number of columns", f"{len(fields)} where the table has {width}")


def _look_ahead(rows: Iterator[T], counts: Callable[[Any], bool]) -> tuple[list[T], Iterator[T]]:
    """The first rows whose content `counts`, which settle how all are read, and an iterator over all rows."""
    seen: list[T] = []
    found: list[T] = []
    for row in rows:
        seen.append(row)
        if counts(row[1]):
            found.append(row)
            if len(found) == LOOK_AHEAD:
                break
    return found, chain(seen, rows)


def _table_columns(path: str, is_csv: bool, sides: Sides, first: list[str], width: int) -> tuple[int, int, bool]:
    """Indices of the source and the target column, and whether the first row is a header with their names."""
    names = (sides.source or "source", sides.target or "target")
    if names[0] in first and names[1] in first:
        return first.index(names[0]), first.index(names[1]), True
    if sides.source is None:
        if width == 2 or (width > 2 and not is_csv):
            return 0, 1, False
        raise CorpusError(
            f"{path}: has {width} column(s), the first row being {listed(first)}; expected two columns separated by "
            f"a {'comma' if is_csv else 'tab'}, or source= and target= with the name or number of a column each."
        )
    if not all(name.isdecimal() and 1 <= int(name) <= width for name in names):
        sides.among(first, f"{path}: columns of the first line (or give numbers from 1 to {width})")  # raises
    return int(names[0]) - 1, int(names[1]) - 1, False


def _json_rows(values: Iterator[tuple[int, Any]], prefix: str, sides: Sides) -> Iterator[Row]:
    """Rows of JSON objects, flat or under `translation`. The first ones settle the keys, in order of appearance."""
    objects = ((number, _json_object(value)) for number, value in values)
    head, rows = _look_ahead(objects, lambda value: isinstance(value, dict))
    if head:
        found = list(dict.fromkeys(key for _, value in head for key in value))
        source_key, target_key = sides.among(found, f"{prefix}{head[0][0]} and after: keys")
    for number, value in rows:
        if isinstance(value, dict):
            fault = _json_text_fault(value, source_key) or _json_text_fault(value, target_key)
            yield number, fault or (value[source_key] or "", value[target_key] or "")
        else:
            yield number, value


def _json_object(value: Any) -> Any:
    """The object with the texts, or what the row is already known to be."""
    if isinstance(value, dict):
        inner = value.get("translation")
        return inner if isinstance(inner, dict) else value
    if isinstance(value, tuple):  # not from JSON
        return value
    return Fault("not a JSON object", f"found a {type(value).__name__}")


def _json_text_fault(value: dict[str, Any], key: str) -> Fault | None:
    """What is wrong if an object has no usable text for a key. Null is usable: it is a blank side."""
    if key not in value:
        return Fault("key missing", f"no {key!r} among {listed(value)}")
    text = value[key]
    if text is not None and not isinstance(text, str):
        return Fault("not a string", f"{key!r} holds a {type(text).__name__}")
    if text and not text.isascii() and re.search("[\ud800-\udfff]", text):
        return Fault("not a character", f"{key!r} holds one half of a surrogate pair")
    return None


def _json_line_values(path: str, decoder: Decoder) -> Iterator[tuple[int, Any]]:
    for number, line in _numbered_lines(path, decoder):
        if is_white(line):
            yield number, BLANK
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            value = Fault("malformed JSON", _json_fault(error))
        yield number, value


def _json_array_values(path: str, decoder: Decoder) -> Iterator[tuple[int, Any]]:
    """The items of one JSON array. After a malformed one the next cannot be found, so that is never skipped."""
    text = "\n".join(line for _, line in _numbered_lines(path, decoder))
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


def _parquet_rows(path: str, sides: Sides, decoder: Decoder) -> Iterator[Row]:
    try:
        with pq.ParquetFile(path) as table:
            features = datasets.Features.from_arrow_schema(table.schema_arrow)
            yield from arrow_rows(table.iter_batches(ROWS_AT_ONCE), features, f"{path} row ", sides, decoder)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path}: not a readable Parquet file: {error}") from error


def arrow_rows(
    batches: Iterable[pa.Table | pa.RecordBatch],
    features: datasets.Features,
    prefix: str,
    sides: Sides,
    decoder: Decoder,
) -> Iterator[Row]:
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
            yield number, (decoder.decode(source, prefix, number), decoder.decode(target, prefix, number))


def _utf8(column: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """The bytes of Arrow strings, which nobody has checked to be UTF-8."""
    return [text or b"" for text in column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()]


def aligned_section(source_path: str, target_path: str, decoder: Decoder) -> Section:
    """Rows of two text files, line n of one being the translation of line n of the other."""
    check_file(source_path)
    check_file(target_path)
    return Section(f"{source_path}:", _aligned_rows(source_path, target_path, decoder), f"{target_path}:")


def file_section(path: str, sides: Sides, decoder: Decoder) -> Section:
    """Rows of one file, whose kind its content tells, and its name only where the content leaves a choice."""
    check_file(path)
    if not os.path.isfile(path):
        raise CorpusError(f"{path}: is a pipe or a device, and must be read twice; save it to a file first.")
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        return Section(f"{path} row ", _parquet_rows(path, sides, decoder))

    lines = (line.strip() for _, line in _numbered_lines(path, Decoder("replace")) if not is_white(line))
    first, second = [*islice(lines, 2), "", ""][:2]
    kind = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    opens_json = first.startswith(("{", "[")) and (_is_json(first) or _is_json(first.rstrip(",") + "]"))
    if not opens_json and kind not in JSON_NAMES:
        return Section(f"{path}:", _table_rows(path, kind == ".csv", sides, decoder))
    if first.startswith("[") and not (second and _is_json(first)):  # else a list is one (bad) line among several
        prefix, values = f"{path} item ", _json_array_values(path, decoder)
    else:
        prefix, values = f"{path}:", _json_line_values(path, decoder)
    return Section(prefix, _json_rows(values, prefix, sides))
