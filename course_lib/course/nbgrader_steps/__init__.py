"""Our steps in nbgrader's pipeline: what is cut from a release, how a run is marked, how a verdict becomes a grade."""
