"""A server in memory that speaks the Hub's HTTP protocol, as far as tinyseq's pushes and pulls need it.

It knows users and their rights, model and data set repositories (private, gated, with branches, tags and history),
and commits that are refused when their parent is not the head. Large files take one of the Hub's two ways:

- Git LFS (the client runs with `HF_HUB_DISABLE_XET=1`): the bytes are on a second port, as the Hub has them on another
  host, so that a client's redirects, and what it sends where, are those of the real thing.
- Xet: hf_xet takes `local://FOLDER` for a storage address and reads and writes that folder itself, so that this server
  only has to name it, and to find out what was left there.

A test looks into `requests()`, and asks for misfortune with `fail()`. Status codes, headers and bodies are those that
`huggingface_hub` 2.4 reads; a plain "not found" needs an `X-Error-Code`, for example, to become the right exception.
"""

import base64
import hashlib
import json
import re
import secrets
import struct
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LFS_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.parquet", "*.arrow", "*.png", "*.gz", "*.zip", "*.model")
LFS_BYTES = 10 * 2**20  # from this size on a file is a large one, whatever its name
INITIAL = {".gitattributes": "".join(f"{p} filter=lfs diff=lfs merge=lfs -text\n" for p in LFS_PATTERNS).encode()}
HOSTS = "127.0.0.1", "localhost"  # of the Hub and the storage: older clients see no difference in a port alone
REPOSITORY = r"((?:datasets/)?)([^/]+/[^/]+)"


class HubError(Exception):
    """An answer with an error status; `code` is the header by which the client tells what is missing."""

    def __init__(self, status: int, message: str, code: str | None = None, headers: dict | None = None, **body: Any):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **(headers or {})}
        self.body = {"error": message, **body}


@dataclass
class User:
    """Who a token stands for, and what it may do: `role` is "write" or "read"."""

    name: str
    role: str = "write"
    organizations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A file in a commit: its bytes, or the sha256 under which the storage has a large one."""

    size: int
    content: bytes | None = None
    sha256: str | None = None

    @property
    def blob(self) -> bytes:
        """What git has: the file, or the pointer to a large one."""
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
        return pointer.encode() if self.content is None else self.content

    @property
    def blob_id(self) -> str:
        """Git's name for it."""
        return hashlib.sha1(b"blob %d\0" % len(self.blob) + self.blob).hexdigest()

    @property
    def etag(self) -> str:
        """The name of the content, in the client's cache too."""
        return self.sha256 or self.blob_id


@dataclass
class Commit:
    """One commit; `parent` is None for the first."""

    id: str
    parent: str | None
    entries: dict[str, Entry]
    title: str
    author: str
    date: str


@dataclass
class Repository:
    """Commits, and the branches and tags that name them. `kind` is "models" or "datasets", as in addresses."""

    kind: str
    name: str
    private: bool = False
    gated: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The user or organization whose it is."""
        return self.name.split("/")[0]

    @property
    def path(self) -> str:
        """Its address on the server."""
        return self.name if self.kind == "models" else f"{self.kind}/{self.name}"

    def find(self, revision: str) -> Commit:
        """Returns the commit of a branch, a tag, or a full or short commit id."""
        revision = re.sub(r"^refs/(heads|tags)/", "", revision)
        found = self.branches.get(revision) or self.tags.get(revision)
        if found is None and re.fullmatch(r"[0-9a-f]{7,40}", revision):
            found = next((id for id in self.commits if id.startswith(revision)), None)
        if found is None:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[found]

    def history(self, revision: str = "main") -> list[Commit]:
        """Returns the commits up to a revision, the newest first."""
        commits = [self.find(revision)]
        while commits[-1].parent:
            commits.append(self.commits[commits[-1].parent])
        return commits

    def add(self, entries: dict[str, Entry], title: str, author: str, branch: str = "main") -> Commit:
        """Puts a commit with exactly these files on a branch."""
        parent, date = self.branches.get(branch), now()
        tree = [f"{path} {entry.blob_id}" for path, entry in sorted(entries.items())]
        id = hashlib.sha1("\n".join([str(parent), *tree, title, author, date]).encode()).hexdigest()
        self.commits[id] = Commit(id, parent, entries, title, author, date)
        self.branches[branch] = id
        return self.commits[id]


@dataclass
class Request:
    """One line of the log. `port` is "hub" or "storage"; headers in small letters; `status` is 0 until answered."""

    port: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    time: float = field(default_factory=time.monotonic)


class HubServer:
    """The Hub: `with HubServer({"hf_alice": User("alice")}) as hub: ... hub.url ...`.

    Args:
        users: Token -> user.
        xet: Folder for what clients store with Xet; None: a server that has LFS only.
    """

    def __init__(self, users: dict[str, User], xet: Path | None = None) -> None:
        self.users = users
        self.xet = xet
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.stored: dict[str, bytes] = {}  # large files that came by LFS, by their sha256
        self.tickets: dict[str, str] = {}  # signed addresses in the storage -> sha256
        self.log: list[Request] = []
        self.faults: list[list] = []
        self.lock = threading.RLock()
        ports = [ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, self)) for handler in (HubPort, StoragePort)]
        addresses = [f"{host}:{port.server_address[1]}" for host, port in zip(HOSTS, ports, strict=True)]
        self.url, self.storage_url = (f"http://{address}" for address in addresses)
        self.ports = ports

    def __enter__(self) -> "HubServer":
        for port in self.ports:
            threading.Thread(target=partial(port.serve_forever, poll_interval=0.02), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Closes both ports: from now on nobody answers."""
        for port in self.ports:
            port.shutdown()
            port.server_close()
        self.ports = []

    # What tests use -----------------------------------------------------------------------------------------------

    def create(
        self, name: str, files: dict[str, bytes] | None = None, kind: str = "models", **properties: bool
    ) -> Repository:
        """Makes a repository: its first commit, and one more with `files`, if there are any."""
        repository = self.repositories[kind, name] = Repository(kind, name, **properties)
        repository.add({path: self.entry(path, data) for path, data in INITIAL.items()}, "initial commit", "hub")
        if files:
            self.commit(repository, files)
        return repository

    def commit(self, repository: Repository, files: dict[str, bytes], branch: str = "main") -> Commit:
        """Lets somebody else's commit, which adds or replaces `files`, land on a branch."""
        repository.branches.setdefault(branch, repository.branches["main"])
        entries = {path: self.entry(path, data) for path, data in files.items()}
        entries = repository.find(branch).entries | entries
        return repository.add(entries, "by hand", repository.owner, branch)

    def repository(self, name: str, kind: str = "models") -> Repository:
        """Returns a repository, whoever may see it."""
        return self.repositories[kind, name]

    def files(self, name: str, revision: str = "main", kind: str = "models") -> dict[str, bytes]:
        """Returns the files of a revision, but for git's own."""
        entries = self.repository(name, kind).find(revision).entries
        return {path: self.read(entry) for path, entry in entries.items() if path != ".gitattributes"}

    def fail(self, method: str, path: str, what: HubError | int | Callable[[], Any], times: float = 1) -> None:
        """Lets the next `times` requests of a method to a path (with wildcards) come to grief.

        Args:
            what: The answer; or after how many bytes of the answer the connection breaks; or a function to call
                before the request is answered as usual: to sleep, or to do what somebody else does meanwhile.
        """
        self.faults.append([method, path, what, times])

    def requests(self, method: str = "*", path: str = "*") -> list[Request]:
        """Returns what was asked so far, with wildcards."""
        with self.lock:
            return [r for r in self.log if fnmatch(r.method, method) and fnmatch(unquote(urlsplit(r.path).path), path)]

    def writes(self) -> list[str]:
        """Returns what was asked that a reader does not ask: creating, uploading, committing, with the status."""
        asked = self.requests("[PD][OUE][STL]*") + self.requests("GET", "*/xet-write-token/*")
        reading = ("/api/validate-yaml", "*/paths-info/*")
        return [
            f"{r.method} {urlsplit(r.path).path} {r.status}"
            for r in asked
            if not any(fnmatch(urlsplit(r.path).path, path) for path in reading)
        ]

    # Large files --------------------------------------------------------------------------------------------------

    def entry(self, path: str, data: bytes) -> Entry:
        """Returns the entry of a file, and stores it if it is a large one."""
        if not is_large(path, len(data), data[:512]):
            return Entry(len(data), data)
        sha256 = hashlib.sha256(data).hexdigest()
        self.stored[sha256] = data
        return Entry(len(data), sha256=sha256)

    def read(self, entry: Entry) -> bytes:
        """Returns a file's bytes, from wherever they are."""
        if entry.content is not None:
            return entry.content
        if entry.sha256 not in self.stored:
            self.stored[entry.sha256] = self.read_xet(entry.sha256)
        return self.stored[entry.sha256]

    def size(self, sha256: str) -> int | None:
        """Returns the size of a large file, or None if nobody has uploaded it."""
        if sha256 in self.stored:
            return len(self.stored[sha256])
        return self.xet_files().get(sha256, (None, None))[1]

    def xet_files(self) -> dict[str, tuple[str, int]]:
        """Returns sha256 -> (Xet's name, size) of what clients stored with Xet.

        It is in the shards they left: 48 bytes of header; then, for each file, records of 48 bytes: the file's own
        (name, flags, number of segments), its segments' (the size is the sum of theirs), as many again if the flags
        say that they are verified, and one with the sha256 if they say so. A name of all ones ends the list.
        """
        found = {}
        for shard in self.xet.glob("xet/xorbs/shards/*.mdb") if self.xet else ():
            data, at = shard.read_bytes(), 48
            while data[at : at + 32] != b"\xff" * 32:
                name, (flags, segments) = data[at : at + 32], struct.unpack("<II", data[at + 32 : at + 40])
                ends = range(at + 48 + 36, at + 48 * (segments + 1) + 36, 48)
                size = sum(struct.unpack("<I", data[end : end + 4])[0] for end in ends)
                at += 48 * (1 + segments * (2 if flags & 1 << 31 else 1))
                if flags & 1 << 30:
                    found[xet_hex(data[at : at + 32])] = xet_hex(name), size
                    at += 48
        return found

    def read_xet(self, sha256: str) -> bytes:
        """Returns a file that a client stored with Xet."""
        import hf_xet  # which some machines can't have

        name, size = self.xet_files()[sha256]
        path = self.xet / f"plain-{secrets.token_hex(4)}"
        options = {"endpoint": f"local://{self.xet}", "token": "any", "token_expiry_unix_secs": int(time.time()) + 999}
        with hf_xet.XetSession().new_file_download_group(**options) as group:
            group.start_download_file(hf_xet.XetFileInfo(name, size), str(path))
        data = path.read_bytes()
        path.unlink()
        return data

    def sign(self, sha256: str) -> str:
        """Returns an address in the storage that needs no account."""
        ticket = secrets.token_urlsafe(12)
        self.tickets[ticket] = sha256
        return f"{self.storage_url}/lfs/{sha256}/{ticket}"

    # Who may do what ----------------------------------------------------------------------------------------------

    def user(self, authorization: str | None) -> User | None:
        """Returns who asks."""
        if not authorization:
            return None
        user = self.users.get(authorization.removeprefix("Bearer ").strip())
        if user is None:
            raise HubError(401, "Invalid credentials in Authorization header")
        return user

    def allowed(self, kind: str, name: str, user: User | None, write: bool = False) -> Repository:
        """Returns a repository that the user may read, or write. One they may not see is as good as not there."""
        repository = self.repositories.get((kind, name))
        member = repository and user and repository.owner in (user.name, *user.organizations)
        if repository is None or (repository.private and not member):
            if user is None:
                raise HubError(401, "Invalid username or password.", "RepoNotFound")
            raise HubError(404, "Repository not found", "RepoNotFound")
        if write and user is None:
            raise HubError(401, "Invalid username or password.")
        if write and not (member and user.role == "write"):
            raise HubError(403, "Forbidden: you must use a write token to upload to a repository.")
        if repository.gated and not member:
            message = f"Access to {name} is restricted and you are not in the authorized list."
            raise HubError(403 if user else 401, message, "GatedRepo")
        return repository


class Port(BaseHTTPRequestHandler):
    """One connection. Subclasses answer in `route`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    name: str

    def __init__(self, hub: HubServer, *arguments: Any) -> None:
        self.hub = hub
        self.cut: int | None = None
        super().__init__(*arguments)

    def route(self, path: str) -> None:
        """Answers the request, or raises HubError."""
        raise NotImplementedError

    def log_message(self, *arguments: Any) -> None:
        """Says nothing: requests() is the log."""

    def dispatch(self) -> None:
        """Logs a request and answers it. Only faults are outside the lock: a slow answer holds nobody else up."""
        url = urlsplit(self.path)
        self.query = parse_qs(url.query, keep_blank_values=True)
        length = int(self.headers.get("Content-Length") or 0)
        is_chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
        self.body = self.read_chunks() if is_chunked else self.rfile.read(length)
        logged = self.body if self.name == "hub" else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.request_line = Request(self.name, self.command, self.path, headers, logged)
        with self.hub.lock:
            self.hub.log.append(self.request_line)
            fault = next(
                (f for f in self.hub.faults if f[0] == self.command and fnmatch(unquote(url.path), f[1])), None
            )
            if fault:
                fault[3] -= 1
                if fault[3] <= 0:
                    self.hub.faults.remove(fault)
        try:
            if fault and isinstance(fault[2], HubError):
                raise fault[2]
            if fault and callable(fault[2]):
                fault[2]()
            elif fault:
                self.cut = fault[2]
            with self.hub.lock:
                self.route(url.path)
        except HubError as error:
            self.reply_json(error.body, error.status, error.headers)
        except ConnectionError:  # the client has gone
            self.close_connection = True
        except Exception:
            traceback.print_exc()
            self.reply_json({"error": "the test's server has a bug; see its traceback"}, 500)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = dispatch

    def read_chunks(self) -> bytes:
        """Returns a body of unknown length."""
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def reply(
        self, data: bytes = b"", status: int = 200, headers: dict | None = None, kind: str = "text/plain"
    ) -> None:
        """Sends an answer; breaks off in its middle if that was asked for."""
        self.request_line.status = status
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: self.cut])
        if self.cut is not None:
            self.close_connection = True

    def reply_json(self, answer: Any, status: int = 200, headers: dict | None = None) -> None:
        """Sends JSON."""
        self.reply(json.dumps(answer).encode(), status, headers, "application/json; charset=utf-8")

    def reply_file(self, data: bytes, headers: dict) -> None:
        """Sends a file, or the range that was asked for."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            return self.reply(data, 200, headers, "application/octet-stream")
        first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
        if first > last:
            return self.reply(b"", 416, {"Content-Range": f"bytes */{len(data)}"})
        headers = headers | {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
        return self.reply(data[first : last + 1], 206, headers, "application/octet-stream")

    def json(self) -> Any:
        """Returns the body, parsed."""
        return json.loads(self.body or b"{}")


class StoragePort(Port):
    """Large files at signed addresses. It must never see a token."""

    name = "storage"

    def route(self, path: str) -> None:
        """Takes or gives a file's bytes."""
        sha256 = self.hub.tickets.get(path.rsplit("/", 1)[-1])
        if sha256 is None:
            raise HubError(403, "AccessDenied")
        if self.command == "PUT":
            if hashlib.sha256(self.body).hexdigest() != sha256:
                raise HubError(400, "BadDigest")
            self.hub.stored[sha256] = self.body
            return self.reply(headers={"ETag": f'"{sha256}"'})
        data = self.hub.read(Entry(self.hub.size(sha256), sha256=sha256))
        return self.reply_file(data, {"ETag": f'"{sha256}"'})


class HubPort(Port):
    """The Hub's own port: the API, and the files of repositories."""

    name = "hub"

    def route(self, path: str) -> None:
        """Finds who asks for what."""
        user = self.hub.user(self.headers.get("Authorization"))
        if found := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/([a-z-]+)(?:/(.*))?)?", path):
            kind, name, verb, rest = found.groups()
            return self.repository_api(user, kind, name, verb or "revision", rest or "")
        if found := re.fullmatch(rf"/{REPOSITORY}/resolve/([^/]+)/(.+)", path):
            return self.resolve(user, kind_of(found[1]), found[2], unquote(found[3]), unquote(found[4]))
        if found := re.fullmatch(rf"/{REPOSITORY}\.git/info/lfs/objects/(batch|verify)", path):
            return self.lfs(user, kind_of(found[1]), found[2], found[3])
        match self.command, path:
            case "GET", "/api/whoami-v2":
                return self.whoami(user)
            case "POST", "/api/repos/create":
                return self.create(user)
            case "POST", "/api/validate-yaml":
                return self.validate_card()
        if re.match(r"/api/(models|datasets)/[^/]+$", path):
            raise HubError(404 if user else 401, "Repository not found", "RepoNotFound")  # a name without an owner
        raise HubError(404, "Sorry, we can't find the page you are looking for.")

    def whoami(self, user: User | None) -> None:
        """Says whose token it is, and what it may do."""
        if user is None:
            raise HubError(401, "Invalid username or password.")
        self.reply_json(
            {
                "type": "user",
                "id": user.name,
                "name": user.name,
                "fullname": user.name,
                "orgs": [{"type": "org", "name": name} for name in user.organizations],
                "auth": {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}},
            }
        )

    def create(self, user: User | None) -> None:
        """Makes a repository, in the user's own namespace if none is named."""
        if user is None:
            raise HubError(401, "Invalid username or password.")
        body = self.json()
        kind = f"{body.get('type') or 'model'}s"
        owner = body.get("organization") or user.name
        name = f"{owner}/{body['name']}"
        if user.role != "write" or owner not in (user.name, *user.organizations):
            raise HubError(403, f'You don\'t have the rights to create a model under the namespace "{owner}"')
        url = f"{self.hub.url}/{Repository(kind, name).path}"
        if (kind, name) in self.hub.repositories:
            raise HubError(409, f"You already created this {kind[:-1]} repo: {name}", url=url)
        self.hub.create(name, kind=kind, private=bool(body.get("private")) or body.get("visibility") == "private")
        self.reply_json({"url": url, "name": name})

    def validate_card(self) -> None:
        """Says whether the metadata of a README.md are YAML, and a mapping."""
        metadata = re.match(r"\s*---\s*\n(.*?)\n---\s*(\n|$)", self.json()["content"], re.S)
        errors = []
        try:
            if metadata and not isinstance(yaml.safe_load(metadata[1]), dict):
                errors.append({"message": "the metadata must be a mapping"})
        except yaml.YAMLError as error:
            errors.append({"message": str(error)})
        warnings = [] if metadata else [{"message": "empty or missing yaml metadata in repo card"}]
        self.reply_json({"errors": errors, "warnings": warnings}, 400 if errors else 200)

    def repository_api(self, user: User | None, kind: str, name: str, verb: str, rest: str) -> None:
        """Answers what is asked of one repository: `verb/revision/path`."""
        write = self.command != "GET" and verb != "paths-info"
        repository = self.hub.allowed(kind, name, user, write)
        revision, _, path = rest.partition("/")
        revision, path = unquote(revision), unquote(path)
        match self.command, verb:
            case "GET", "revision":
                self.reply_json(info(repository, repository.find(revision or "main"), "blobs" in self.query))
            case "GET", "tree":
                recursive = self.query.get("recursive", [""])[0].lower() in ("1", "true")
                self.reply_json(self.tree(repository.find(revision), path, recursive))
            case "POST", "paths-info":
                entries = repository.find(revision).entries
                paths = self.json() if "json" in self.headers["Content-Type"] else parse_qs(self.body.decode())
                self.reply_json([self.node(p, entries[p]) for p in paths.get("paths", []) if p in entries])
            case "GET", "refs":
                heads, tags = ([{"name": n, "ref": n, "targetCommit": id} for n, id in refs.items()]
                               for refs in (repository.branches, repository.tags))  # fmt: skip
                self.reply_json({"branches": heads, "tags": tags, "converts": []})
            case "GET", "commits":
                self.reply_json(
                    [
                        {"id": c.id, "title": c.title, "message": "", "date": c.date, "authors": [{"user": c.author}]}
                        for c in repository.history(revision)
                    ]
                )
            case "GET", "auth-check":
                self.hub.allowed(kind, name, user, write=revision == "write")
                self.reply(b"OK")
            case "GET", "xet-read-token" | "xet-write-token" if self.hub.xet:
                self.hub.allowed(kind, name, user, write=verb == "xet-write-token")
                address, expires = f"local://{self.hub.xet}", int(time.time()) + 3600
                names = "X-Xet-Cas-Url", "X-Xet-Access-Token", "X-Xet-Token-Expiration"
                headers = dict(zip(names, (address, "any", expires), strict=True))
                self.reply_json({"casUrl": address, "accessToken": "any", "exp": expires}, headers=headers)
            case "POST", "branch":
                if revision in repository.branches:
                    raise HubError(409, f"Reference refs/heads/{revision} already exists")
                repository.branches[revision] = repository.find(self.json().get("startingPoint", "main")).id
                self.reply_json({"success": True})
            case "DELETE", "branch":
                if repository.branches.pop(revision, None) is None:
                    raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
                self.reply_json({"success": True})
            case "POST", "preupload":
                self.reply_json({"files": self.upload_modes(repository.find(revision))})
            case "POST", "commit":
                self.reply_json(self.apply(repository, revision, user))
            case _:
                raise HubError(404, "Not Found")

    def tree(self, commit: Commit, folder: str, recursive: bool) -> list[dict]:
        """Returns the files, and the folders, in a folder."""
        prefix = f"{folder}/" if folder else ""
        inside = {path: entry for path, entry in commit.entries.items() if path.startswith(prefix)}
        if folder and not inside:
            raise HubError(404, f'"{folder}" does not exist on this revision', "EntryNotFound")
        files, folders = [], {}
        for path, entry in sorted(inside.items()):
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts) if recursive else min(2, len(parts))):
                name = prefix + "/".join(parts[:depth])
                folders[name] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": name}
            if recursive or len(parts) == 1:
                files.append(self.node(path, entry))
        return [*folders.values(), *files]

    def node(self, path: str, entry: Entry) -> dict:
        """Returns what a listing says about a file."""
        node = {"type": "file", "oid": entry.blob_id, "size": entry.size, "path": path}
        if entry.sha256:
            node["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": len(entry.blob)}
            if entry.sha256 in (xet := self.hub.xet_files()):
                node["xetHash"] = xet[entry.sha256][0]
        return node

    def upload_modes(self, commit: Commit) -> list[dict]:
        """Returns by which way each file has to come, and the name of what is there now."""
        modes = []
        for file in self.json()["files"]:
            path, there = file["path"], commit.entries.get(file["path"])
            large = is_large(path, file["size"], base64.b64decode(file.get("sample", "")))
            mode = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
            modes.append(mode | ({"oid": there.etag} if there else {}))
        return modes

    def apply(self, repository: Repository, branch: str, user: User) -> dict:
        """Makes a commit of a list of changes, or none at all."""
        changes = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        header = changes.pop(0)["value"]
        if branch not in repository.branches:
            raise HubError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
        head = repository.find(branch)
        if header.get("parentCommit") and not head.id.startswith(header["parentCommit"]):
            message = "The branch was updated since you opened this page. Please refresh and try again."
            raise HubError(412, message)
        entries = dict(head.entries)
        for change in changes:
            value, path = change["value"], change["value"]["path"]
            match change["key"]:
                case "file":
                    content = base64.b64decode(value["content"])
                    entries[path] = Entry(len(content), content)
                case "lfsFile":
                    size = self.hub.size(value["oid"])
                    if size is None:
                        raise HubError(400, f"LFS pointer pointed to a file that does not exist: {path}")
                    entries[path] = Entry(size, sha256=value["oid"])
                case "deletedFile":
                    if path not in entries:
                        raise HubError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
                    del entries[path]
                case other:
                    raise HubError(400, f"this server knows no {other}")
        commit = repository.add(entries, header["summary"], user.name, branch)
        url = f"{self.hub.url}/{repository.path}/commit/{commit.id}"
        return {"success": True, "commitOid": commit.id, "commitUrl": url, "hookOutput": ""}

    def lfs(self, user: User | None, kind: str, name: str, verb: str) -> None:
        """Says where to upload large files that are not there yet; later, whether they have come."""
        self.hub.allowed(kind, name, user, write=True)
        body = self.json()
        if verb == "verify":
            if self.hub.size(body["oid"]) != body["size"]:
                raise HubError(404, "LFS object was not uploaded")
            return self.reply(b"OK")
        objects = []
        for wanted in body["objects"]:
            upload = {"href": self.hub.sign(wanted["oid"])}
            verify = {"href": f"{self.hub.url}{urlsplit(self.path).path.replace('/batch', '/verify')}"}
            there = wanted["oid"] in self.hub.stored
            objects.append(wanted | ({} if there else {"actions": {"upload": upload, "verify": verify}}))
        answer = json.dumps({"transfer": "basic", "objects": objects}).encode()
        return self.reply(answer, kind="application/vnd.git-lfs+json")

    def resolve(self, user: User | None, kind: str, name: str, revision: str, path: str) -> None:
        """Gives a file; a large one by redirection."""
        repository = self.hub.allowed(kind, name, user)
        commit = repository.find(revision)
        headers = {"X-Repo-Commit": commit.id}
        entry = commit.entries.get(path)
        if entry is None:
            raise HubError(404, "Entry not found", "EntryNotFound", headers)
        headers["ETag"] = f'"{entry.etag}"'
        if entry.content is not None:
            return self.reply_file(entry.content, headers)
        headers |= {"X-Linked-Size": entry.size, "X-Linked-ETag": f'"{entry.etag}"'}
        headers |= {"Location": self.hub.sign(entry.sha256)}
        if entry.sha256 in (xet := self.hub.xet_files()):
            route = f"{self.hub.url}/api/{kind}/{name}/xet-read-token/{commit.id}"
            headers |= {"X-Xet-Hash": xet[entry.sha256][0], "X-Xet-Refresh-Route": route}
        return self.reply(b"Found. Redirecting", 302, headers)


def info(repository: Repository, commit: Commit, blobs: bool) -> dict:
    """Returns what the Hub says about a revision of a repository."""
    siblings: list[dict] = []
    for path, entry in sorted(commit.entries.items()):
        siblings.append({"rfilename": path})
        if blobs:
            siblings[-1] |= {"blobId": entry.blob_id, "size": entry.size}
            if entry.sha256:
                siblings[-1]["lfs"] = {"sha256": entry.sha256, "size": entry.size, "pointerSize": len(entry.blob)}
    return {
        "id": repository.name,
        "author": repository.owner,
        "sha": commit.id,
        "lastModified": commit.date,
        "private": repository.private,
        "gated": "manual" if repository.gated else False,
        "disabled": False,
        "tags": [],
        "siblings": siblings,
    }


def is_large(path: str, size: int, sample: bytes) -> bool:
    """Whether a file goes to the storage: by its name, its size, or because it is binary."""
    return size > LFS_BYTES or b"\0" in sample or any(fnmatch(path.split("/")[-1], p) for p in LFS_PATTERNS)


def kind_of(prefix: str) -> str:
    """The kind of repository that an address with this prefix names."""
    return prefix.rstrip("/") or "models"


def xet_hex(data: bytes) -> str:
    """Xet's way to write 32 bytes: as four little-endian numbers."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", data))


def now() -> str:
    """The time, as the Hub writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
