"""What the tests came to."""

SLOWEST = 10


class Results:
    """What each test came to, by its path."""

    def __init__(self, command="scripts/test --exact"):
        # What runs a test alone, with its path behind it.
        self.command = command
        self.passed, self.failed, self.seconds, self.skipped = [], {}, {}, []

    def add(self, name, is_passed, seconds, seen=""):
        self.seconds[name] = seconds
        if is_passed:
            self.passed.append(name)
        else:
            self.failed[name] = seen

    def skipped_for_missing(self, pairs):
        self.skipped = pairs

    def summary(self, times):
        """The last lines: what took longest, what was skipped, what failed and how to run that alone."""
        yield ""
        yield "time: " + ", ".join(f"{what} {seconds:.0f} s" for what, seconds in times)
        if len(self.seconds) > 1:
            yield f"the slowest, at most {SLOWEST}:"
            for name, seconds in sorted(self.seconds.items(), key=lambda pair: -pair[1])[:SLOWEST]:
                yield f"  {seconds:7.1f} s  {name}"
        for what, test in self.skipped:
            yield f"skipped, because {what} is missing: {test}"
        if self.failed:
            yield "failed; each runs alone with:"
        for name, seen in self.failed.items():
            yield f"  {self.command} {name}" + (f"  # {seen}" if seen else "")
        yield f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"

    def print_summary(self, times):
        print("\n".join(self.summary(times)), flush=True)
