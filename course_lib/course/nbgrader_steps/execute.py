"""Run a submission for grading: a fresh run id, no trace in anybody's progress, and a verdict for every grade cell.

A cell that shows no verdict of this run (its kernel died, its answer hung or has a syntax error, its name is undefined) is judged
from its source in a child process, so that one bad answer does not cost the others their points.
"""

import secrets
import tempfile
from typing import Any

from nbclient.exceptions import DeadKernelError
from nbgrader.preprocessors import Execute as NbgraderExecute

from ...grading.verdict import MIME
from ..environment import environment
from ..judge import judge
from ..kernel import CourseKernelManager
from ..live import RUN_VARIABLE
from .cap import cap
from .outputs import grade_cells, put_verdict, verdict_for


class Execute(NbgraderExecute):
    """nbgrader's step, with our run id in the kernel's environment."""

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **{"kernel_manager_class": CourseKernelManager} | settings)

    def preprocess(self, nb: Any, resources: Any, **kwargs: Any) -> tuple[Any, Any]:
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        run = secrets.token_hex(16)
        trouble = ""
        with tempfile.TemporaryDirectory(prefix="course-grade-") as folder:
            with environment({RUN_VARIABLE: run, "COURSE_HOME": folder}):
                try:
                    nb, resources = super().preprocess(nb, resources, **kwargs)
                except (DeadKernelError, RuntimeError, TimeoutError) as error:
                    trouble = f"the kernel ended while the notebook ran ({type(error).__name__})"
                    self.log.warning("%s; its exercises are judged one by one", trouble)
        for cell in nb.cells:
            known = grade_cells().get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if known and verdict_for(cell, run) is None:
                put_verdict(cell, judge(nb, *known, run=run))
            cap(cell, untouched=MIME)
        resources["course_run"], resources["course_trouble"] = run, trouble
        return nb, resources
