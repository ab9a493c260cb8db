"""torch.hub: models from folders and from what was fetched before, and weights from addresses, kept in a folder.

Repositories are not fetched: `load` takes source="local", or a repository that is in the folder already.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from tocha.serialization import load as _load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_GITHUB_TOKEN, ENV_TORCH_HOME, ENV_XDG_CACHE_HOME = "GITHUB_TOKEN", "TORCH_HOME", "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF, VAR_DEPENDENCY = "hubconf.py", "dependencies"
READ_DATA_CHUNK = 128 * 1024
_folder: str | None = None


def _get_torch_home() -> str:
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder that things are kept in: set_dir's, $TORCH_HOME/hub, or ~/.cache/torch/hub.

    >>> import os
    >>> os.path.basename(tocha.hub.get_dir())
    'hub'
    """
    return _folder if _folder is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Sets the folder that things are kept in.

    >>> before = tocha.hub.get_dir()
    >>> tocha.hub.set_dir("models")
    >>> tocha.hub.get_dir()
    'models'
    >>> tocha.hub.set_dir(before)
    """
    global _folder
    _folder = os.path.expanduser(d)


# -- weights -----------------------------------------------------------------------------------------------


class _Progress:
    """What is used of tqdm where that package is not installed."""

    def __init__(self, iterable: Any = None, total: int | None = None, disable: bool = False, **options: Any):
        self.iterable, self.total, self.disable, self.n = iterable, total, disable, 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            yield item
            self.update(1)
        self.close()

    def update(self, n: int) -> None:
        """So much more is done."""
        self.n += n
        if not self.disable:
            part = f"{100 * self.n / self.total:.1f}%" if self.total else f"{self.n} bytes"
            sys.stderr.write(f"\r{part}")
            sys.stderr.flush()

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is shown of it."""

    def write(self, text: str) -> None:
        """A line beside the progress."""
        sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        """Ends the line."""
        if not self.disable:
            sys.stderr.write("\n")
            self.disable = True

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


try:
    from tqdm import tqdm  # type: ignore[import-untyped]
except ImportError:
    tqdm = _Progress


def _copy_with_progress(source: Any, target: Any, total: int | None, progress: bool) -> str:
    """Copies, says how far it is, and returns the hash."""
    sha = hashlib.sha256()
    with tqdm(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024) as bar:
        while block := source.read(READ_DATA_CHUNK):
            target.write(block)
            sha.update(block)
            bar.update(len(block))
    return sha.hexdigest()


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetches an address into a file, which appears when it is whole and its hash begins as said.

    >>> import os, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("hello")
    >>> tocha.hub.download_url_to_file((folder / "a.txt").as_uri(), str(folder / "b.txt"), progress=False)
    >>> (folder / "b.txt").read_text()
    'hello'
    """
    dst = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    with urllib.request.urlopen(request) as source:
        length = source.headers.get("Content-Length")
        handle, path = tempfile.mkstemp(dir=os.path.dirname(dst) or ".", suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as part:
                found = _copy_with_progress(source, part, int(length) if length else None, progress)
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            shutil.move(path, dst)
        finally:
            if os.path.exists(path):
                os.remove(path)


def _unzipped(path: str, folder: str) -> str:
    """The one file in an archive of the kind that PyTorch's oldest checkpoints came in."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise RuntimeError("Only one file(not dir) is allowed in the zipfile")
        archive.extractall(folder)
        return os.path.join(folder, members[0].filename)


def _is_plain_archive(path: str) -> bool:
    """A zip archive that is no checkpoint itself."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return not any(name.endswith("data.pkl") for name in archive.namelist())


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """Loads a checkpoint from an address, fetched once. With check_hash the file's name holds the hash's beginning: name-<sha256>.pt.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> tocha.save({"w": tocha.ones(2)}, folder / "tiny.pt")
    >>> tocha.hub.load_state_dict_from_url((folder / "tiny.pt").as_uri(), str(folder / "cache"), progress=False)
    {'w': tensor([1., 1.])}
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        print(f'Downloading: "{url}" to {path}\n', file=sys.stderr)
        marked = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, marked[1] if marked else None, progress)
    if _is_plain_archive(path):
        path = _unzipped(path, folder)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


# -- models ------------------------------------------------------------------------------------------------


def _cached_repository(repository: str) -> str:
    """The folder of owner/name[:branch], if it was fetched before."""
    owner_name, _, branch = repository.partition(":")
    owner, _, name = owner_name.partition("/")
    if not owner or not name:
        raise ValueError(f"[hub] a repository is named owner/name[:branch], not {repository!r}")
    branches = [branch.replace("/", "_")] if branch else ["main", "master"]
    for b in branches:
        path = Path(get_dir()) / f"{owner}_{name}_{b}"
        if path.is_dir():
            return str(path)
    raise RuntimeError(
        f"[hub] {repository} is not in {get_dir()}, and repositories are not fetched: put it there as "
        f"{owner}_{name}_{branches[0]}, or use source='local' with its folder"
    )


def _entries(folder: str) -> ModuleType:
    """A repository's hubconf, run with the folder on the path."""
    path = os.path.join(folder, MODULE_HUBCONF)
    if not os.path.exists(path):
        raise FileNotFoundError(f"[hub] there is no hubconf.py in {folder}")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        sys.path.remove(folder)
    missing = [d for d in getattr(module, "dependencies", ()) if importlib.util.find_spec(d) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _folder_of(repo_or_dir: str, source: str) -> str:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    return os.path.realpath(repo_or_dir) if source == "local" else _cached_repository(repo_or_dir)


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if not isinstance(name, str) or not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    r"""The names of a repository's models.

    >>> import pathlib, tempfile
    >>> before = tocha.hub.get_dir()
    >>> tocha.hub.set_dir(tempfile.mkdtemp())
    >>> folder = pathlib.Path(tocha.hub.get_dir(), "me_models_main")
    >>> folder.mkdir(parents=True)
    >>> source = "import tocha\ndef tiny(size=2):\n    'A small layer.'\n    return tocha.nn.Linear(size, 1)\n"
    >>> _ = (folder / "hubconf.py").write_text(source)
    >>> tocha.hub.list("me/models:main", trust_repo=True)
    ['tiny']
    >>> tocha.hub.set_dir(before)
    """
    module = _entries(_folder_of(github, "github"))
    return [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> str | None:
    r"""What a repository says of a model.

    >>> import pathlib, tempfile
    >>> before = tocha.hub.get_dir()
    >>> tocha.hub.set_dir(tempfile.mkdtemp())
    >>> folder = pathlib.Path(tocha.hub.get_dir(), "me_models_main")
    >>> folder.mkdir(parents=True)
    >>> source = "import tocha\ndef tiny(size=2):\n    'A small layer.'\n    return tocha.nn.Linear(size, 1)\n"
    >>> _ = (folder / "hubconf.py").write_text(source)
    >>> tocha.hub.help("me/models:main", "tiny", trust_repo=True)
    'A small layer.'
    >>> tocha.hub.set_dir(before)
    """
    return _entry(_entries(_folder_of(github, "github")), model).__doc__


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = "check", force_reload: bool = False,
         verbose: bool = True, skip_validation: bool = False, **kwargs: Any) -> Any:  # fmt: skip
    r"""Calls a function of a repository's hubconf.py.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> source = "import tocha\ndef tiny(size=2):\n    'A small layer.'\n    return tocha.nn.Linear(size, 1)\n"
    >>> _ = pathlib.Path(folder, "hubconf.py").write_text(source)
    >>> tocha.hub.load(folder, "tiny", 3, source="local")
    Linear(in_features=3, out_features=1, bias=True)
    """
    return _entry(_entries(_folder_of(repo_or_dir, source)), model)(*args, **kwargs)


_download_url_to_file = download_url_to_file
