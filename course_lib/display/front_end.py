"""Whether somebody sits in front of this cell who could press a button.

JupyterLab, Notebook 7 and VS Code send the id of the cell with a request to execute it; nbclient, and with it papermill and
nbconvert, does not. A button in an exported page has no kernel behind it, so what is exported must work without.
"""

import sys
from typing import Any


def someone_can_click() -> bool:
    """True in a live notebook whose front end is known to show widgets; False when in doubt."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    request: Any = getattr(shell, "get_parent", dict)()
    return bool(isinstance(request, dict) and request.get("metadata", {}).get("cellId"))
