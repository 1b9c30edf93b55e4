# nbgrader reads this file; what it sets, and why, stands in course_lib/course/nbgrader_steps/config.py
from course_lib.course.nbgrader_steps.config import configure

configure(get_config())  # noqa: F821 - given by nbgrader
