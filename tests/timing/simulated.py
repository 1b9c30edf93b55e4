"""A device whose times are known: a host clock, a device clock, and a queue between them."""


class SimulatedQueue:
    """`launch(device_seconds)` costs the host `launch_seconds` and starts when the device is free and the launch has arrived."""

    def __init__(self, launch_seconds=0.0, hold_seconds=1e-3):
        self.host = self.free_at = 0.0
        self.launch_seconds, self.hold_seconds = launch_seconds, hold_seconds
        self.recording = None
        self.waits = 0

    def launch(self, device_seconds):
        if self.recording is not None:
            self.recording.append(device_seconds)
            return
        self.host += self.launch_seconds
        self.free_at = max(self.free_at, self.host) + device_seconds

    def mark(self):
        return SimulatedMark(self)

    def hold(self):
        self.free_at = max(self.free_at, self.host) + self.hold_seconds

    def wait(self):
        self.waits += 1
        self.host = max(self.host, self.free_at)

    def capture(self, calls):
        self.recording = []
        calls()
        recorded, self.recording = self.recording, None

        def replay():
            self.host += self.launch_seconds
            self.free_at = max(self.free_at, self.host) + sum(recorded)

        return replay


class SimulatedMark:
    def __init__(self, queue):
        self.queue, self.at = queue, None

    def record(self):
        self.at = max(self.queue.free_at, self.queue.host)

    def elapsed_time(self, end):
        assert self.queue.host >= end.at, "a mark was read before the device had passed it"
        return (end.at - self.at) * 1e3
