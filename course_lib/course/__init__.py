"""What needs the list of exercises: the live check, the judge, progress, the nbgrader glue, the notebook build."""
