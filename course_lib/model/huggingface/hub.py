"""From what a user names to a folder on disk: a path is only looked up; an id like Qwen/Qwen3-0.6B is fetched from the hub."""

import re
import sys
from pathlib import Path

FILES = ["config.json", "generation_config.json", "tokenizer.json", "model*.safetensors", "model.safetensors.index.json"]
"""What we read. Not the second copy of the weights in another format that many repositories hold."""
_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def folder_of(path_or_id: str | Path, revision: str | None = None) -> Path:
    """The checkpoint's folder. Never a network access for a path: a Path, what exists, or what begins in a folder that exists."""
    path = Path(path_or_id).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise ValueError(f"{path} is a file; give its folder, with config.json in it: {path.parent}")
    if isinstance(path_or_id, Path) or not _ID.fullmatch(path_or_id) or path.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path)!r}; give one that has config.json, or a hub id such as Qwen/Qwen3-0.6B")
    return fetched(path_or_id, revision)


def fetched(repo_id: str, revision: str | None = None) -> Path:
    """The folder in the hub's local cache, completed from the hub where it can be reached; progress shows on stdout."""
    by_hand = f"download {repo_id} elsewhere and give the folder's path"
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.utils import tqdm
    except ImportError:
        raise ModuleNotFoundError(
            f"{repo_id} is a hub id, and huggingface_hub is not installed; pip install huggingface_hub, or {by_hand}"
        ) from None

    class OnStdout(tqdm):  # type: ignore[misc, valid-type]
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **(kwargs | {"file": sys.stdout}))

    try:
        return Path(snapshot_download(repo_id, revision=revision, allow_patterns=FILES, tqdm_class=OnStdout))
    except GatedRepoError:
        raise PermissionError(
            f"{repo_id} asks for its terms to be accepted on its page; do that, then `hf auth login`, or {by_hand}"
        ) from None
    except RepositoryNotFoundError:
        raise FileNotFoundError(f"the hub has no {repo_id} that you may see; check the id, or `hf auth login`") from None
    except RevisionNotFoundError:
        raise FileNotFoundError(f"{repo_id} has no revision {revision!r}; see its page for branches and tags") from None
    except Exception as error:
        if not (isinstance(error, (OSError, HfHubHTTPError)) or type(error).__module__.startswith("httpx")):  # or httpx2
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConnectionError(
            f"the hub cannot be reached for {repo_id}, and its cache here is not complete ({reason}); "
            f"check the network (HF_HUB_OFFLINE, HF_ENDPOINT), or {by_hand}"
        ) from error
