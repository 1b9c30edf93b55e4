"""Tables in the documents, made from result files: `python -m benchmarks._tables` writes them, `--check` only compares.

A document holds a pair of comments, and what stands between them is replaced:
    <!-- table nvidia-h200/ledger_sectors ^matmul -->
    ...
    <!-- end table -->
The last word is a regular expression that picks rows by their case; without it all rows come. A result whose sources have
changed since it was measured is marked as such in the table's caption.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from ._result import ROOT, sources_hash

_BLOCK = re.compile(r"(<!-- table (?P<result>\S+)(?: (?P<rows>.+?))? -->\n)(?P<table>.*?)(<!-- end table -->)", re.DOTALL)


def documents() -> list[Path]:
    """The documents that may hold tables."""
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def with_tables(text: str) -> str:
    """The document's text with every table made anew. ValueError where a result is missing or no row is picked."""
    return _BLOCK.sub(lambda match: match[1] + table(match["result"], match["rows"] or "") + match[5], text)


def table(name: str, rows: str = "") -> str:
    """The Markdown table of benchmarks/results/NAME.json, of the rows whose case matches the regular expression `rows`."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    if not path.exists():
        raise ValueError(f"{path.relative_to(ROOT)} does not exist; run that benchmark, or mend the comment in the document")
    result = json.loads(path.read_text(encoding="utf-8"))
    picked = [row for row in result["rows"] if re.search(rows, row["case"])]
    if not picked:
        cases = ", ".join(row["case"] for row in result["rows"][:5])
        raise ValueError(f"no row of {name} matches {rows!r}; its cases are: {cases}, ...")
    peers = {row["peer_name"] for row in picked} - {None}
    peer = peers.pop() if len(peers) == 1 else "peer"
    lines = [f"| case | unit | ours | {peer} | ratio |", "|---|---|--:|--:|--:|"]
    for r in picked:
        lines.append(f"| {r['case']} | {r['unit']} | {_number(r['ours'])} | {_number(r['peer'])} | {_ratio(r['ratio'])} |")
    return "\n".join([*lines, "", _caption(result, path), ""])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _caption(result: dict[str, Any], path: Path) -> str:
    software = ", ".join(f"{name} {result[name]}" for name in ("driver", "torch", "triton") if result[name])
    stale = "" if _fresh(result) else " **Stale: its sources have changed since.**"
    return f"<sub>{result['device']}, {software}, {result['date'][:10]}; {path.relative_to(ROOT)}.{stale}</sub>"


def _fresh(result: dict[str, Any]) -> bool:
    try:
        return sources_hash(result["sources"]) == result["sha256"]
    except FileNotFoundError:
        return False


def main(check: bool) -> int:
    """-> 0, or with `check` 1 when a document's table is not what its result says."""
    changed = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        made = with_tables(text)
        if made != text:
            changed.append(path.relative_to(ROOT))
            if not check:
                path.write_text(made, encoding="utf-8")
    for path in changed:
        print(f"{path}: {'its tables differ from the results' if check else 'tables written'}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
