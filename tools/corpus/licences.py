"""Which licences may enter: permissive ones only, judged for the package and again for each file.

Package  every term of its stated licence must be permitted, and neither the statement nor the archive's metadata may name a
         refused licence, in dual licences as well. Metadata that would mislead is overruled in sources.toml, with the reason.
File     one that names a refused licence near its head, links to a question-and-answer site (snippets there are CC-BY-SA), or is
         itself a licence text is dropped, whatever it says about it. That costs under 1 % of the text and needs no judgement.
"""

import re

PERMITTED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib", "matplotlib",
}  # fmt: skip
# `\b` lets "sharding_plan" and "ShardingPlan" pass; `import matplotlib as mpl` is no licence either, so MPL counts in capitals
WORDS = rb"(?i:\b[AL]?GPL|General Public Licen[sc]e|Mozilla Public|Eclipse Public|CC[- ]BY|Creative ?Commons)"
REFUSED = re.compile(WORDS + rb"|\b[EM]PL\b")
REFUSED_IN_FILE = re.compile(WORDS + rb"|\bMPL[- ]?v?[12]|\b[EM]PL [Ll]icen[sc]e")
QUESTIONS = re.compile(rb"(?i:stackoverflow\.com|stackexchange\.com|superuser\.com|serverfault\.com)")
HEAD_BYTES = 3000
LICENCE_FILE = re.compile(r"(?i)(^|/)(licen[sc]e|copying|copyright|notice|authors|patents|eula|third[_-]?party)[^/]*$")


def refuse_package(licence: str, metadata: str, overrules: str = "") -> str:
    """Why a package may not be used, or "". `licence`: the SPDX expression of sources.toml; `metadata`: the archive's own."""
    terms = re.findall(r"[A-Za-z0-9][A-Za-z0-9.+-]*", re.sub(r"\b(AND|OR|WITH)\b", " ", licence))
    if not terms:
        return "states no licence"
    if unknown := [term for term in terms if term not in PERMITTED]:
        return f"{', '.join(unknown)} is not among the permitted licences"
    if not overrules and (word := REFUSED.search(metadata.encode())):
        return f"its metadata names {word.group().decode()}"
    return ""


def metadata_licence(metadata: str) -> str:
    """The lines of a METADATA or PKG-INFO file that state the licence (a folded `License:` text counts to its end)."""
    head = metadata.split("\n\n", 1)[0]
    fields = re.split(r"\n(?=\S)", head)
    return "\n".join(field for field in fields if field.startswith(("License:", "License-Expression:", "Classifier: License")))


def refuse_file(path: str, content: bytes) -> str:
    """Why a file may not be used ("licence text", "licence word", "answers site"), or ""."""
    if LICENCE_FILE.search(path):
        return "licence text"
    if REFUSED_IN_FILE.search(content[:HEAD_BYTES]):
        return "licence word"
    return "answers site" if QUESTIONS.search(content) else ""
