"""What pip's output means when a set-up fails, in one sentence that says what to do."""

import re


class SetupError(Exception):
    """Says in plain words what is wrong and what to do next; shown without a traceback."""


NO_NETWORK = (
    "No package index answers. Is there a network, and does it need a proxy (HTTPS_PROXY)? "
    "Run the same command again once there is."
)
MEANINGS = (  # the first match wins: pattern in the output, what it means and what to do
    (r"No space left on device", "The disk is full: free some space and run the same command again."),
    (
        r"ensurepip is not available|No module named '?(?:ensurepip|venv)",
        "This Python cannot make virtual environments. Debian, Ubuntu: apt install python3-venv "
        "(python3.X-venv for a python3.X).",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The package index's certificate is not trusted here. Behind a proxy, point PIP_CERT at its own.",
    ),
    (
        r"name resolution|Name or service not known|nodename nor servname|getaddrinfo failed|ConnectTimeout|"
        r"Failed to establish a new connection|Network is unreachable|No route to host|ReadTimeout|"
        r"ProxyError",
        NO_NETWORK,
    ),
    (
        r"ResolutionImpossible|conflicting dependencies",
        "No index in reach has versions that fit both the course's pins and pip's own settings "
        "(PIP_CONSTRAINT, `pip config list`).",
    ),
    (
        r"No matching distribution found for ([^\s(]+)",
        "No package index in reach has {0} for this Python and this machine; another Python may do (make PYTHON=python3.12 ...).",
    ),
    (
        r"Permission denied|Read-only file system",
        "This folder cannot be written: work in a clone of your own.",
    ),
)
NOISE = ("is ignored: it is neither", "WARNING: Retrying", "Looking in ")


def meaning(output):
    """One sentence for what the output of a failed step means."""
    for pattern, sentence in MEANINGS:
        match = re.search(pattern, output)
        if match:
            return sentence.format(*match.groups())
    return "Its last lines are above; running the same command again retries it."


def tail(output, lines=12):
    """The last lines that say something: no blank ones, no retries, none on places where pip looked."""
    kept = [line for line in output.splitlines() if line.strip() and not any(n in line for n in NOISE)]
    return "\n".join(kept[-lines:])


def explain(output):
    """The last lines and what they mean. Of a missing network pip says much that misleads: only what it means."""
    return meaning(output) if meaning(output) == NO_NETWORK else f"{tail(output)}\n\n{meaning(output)}"
