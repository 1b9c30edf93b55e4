"""Launches written down where they run, then replayed, counted and compiled in clean processes.

recording.py, recorded_arguments.py, device_memory.py   `record`: a tape of launches, beside the code that makes them
replay.py, replay_process.py    `replay`, `ledger_of`: the judge's side, which starts the clean process
replay_worker.py, replay_memory.py, told.py   inside it: may this launch have been given that?
recorded_compile.py  what the recorded kernels compile to
plain.py         plain data in one file, between the processes. (grading/inside/border.py does the same for the sandbox,
                 which may import nothing of the course, and carries no ledgers.)
"""
