"""The roadmap's claims as data: what it says, whether that holds, and the check that shows it.

Files    claims.csv (one claim a row), tested.toml (parts that a test examines), measured.toml (parts that a device answered)
Flow     load.py reads the rows, checks.py takes their checks apart, evaluate.py does the arithmetic, states.py says how each
         part stands, counts.py counts.
"""

from .checks import Check, parse_checks
from .counts import Summary, summary
from .evaluate import ArithmeticRefused, Evaluated, evaluate, evaluate_check
from .load import Claim, Verdict, all_claims, claim, select
from .states import Evidence, PartState, evidence

__all__ = [
    "ArithmeticRefused", "Check", "Claim", "Evaluated", "Evidence", "PartState", "Summary", "Verdict",
    "all_claims", "claim", "evaluate", "evaluate_check", "evidence", "parse_checks", "select", "summary",
]  # fmt: skip
