"""The parts of the benchmarks that need no server: `python3 -m unittest benchmarks.tests` in scripts/."""

import contextlib
import io
import json
import os
import tempfile
import time
import tomllib
import types
import unittest
import unittest.mock
from pathlib import Path

from . import clients, command, compare, limit, measuring, mutations, rounds, transports
from .measuring import BenchError, Overdue
from .rounds import Pair, Stuck

REPORT = "echo 'Request count: 32'; echo 'Throughput: 512.5 infer/sec'"


def options(**more):
    return types.SimpleNamespace(
        **{"benchmark": "clients", "rounds": 1, "concurrency": 1, "iterations": 2, "model": "m", "time_limit": 20, "quick": False, **more}
    )


@contextlib.contextmanager
def said():
    """What is printed to stderr meanwhile."""
    with contextlib.redirect_stderr(io.StringIO()) as text:
        yield text


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def script(self, text):
        """A program that does this, and takes any arguments."""
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


class Mutations(InAFolder):
    def test_all_mutations_are_known_and_none_else(self):
        names = mutations.mutations()
        self.assertGreater(len(names), 30)
        self.assertEqual({*mutations.CHANCES, *mutations.MODELS, *mutations.ITERATIONS} - set(names), set())

    def test_the_first_violation_is_what_the_tool_says(self):
        violation = {"kind": "lost", "explanations": [{"cause": "stall"}, {"cause": "response-late"}]}
        self.assertEqual(mutations.told({"violations": [violation], "exit_code": 1, "verdict": "invalid"}), "`lost`, cause `stall`")
        self.assertEqual(mutations.told({"violations": [], "exit_code": 0, "verdict": "valid"}), "nothing")
        self.assertEqual(mutations.told({"violations": [], "exit_code": 3, "verdict": "unknown"}), "unknown")

    def test_an_error_is_what_perf_analyzer_says(self):
        self.assertEqual(mutations.said(99, "Thread [0] had error: Output doesn't match expected output\n"), "“Output doesn't match expected output”")
        self.assertEqual(mutations.said(99, "error: no such model 'abc'\n"), "“no such model …”")
        self.assertEqual(
            (mutations.said(0, "Request count: 384"), mutations.said(99, ""), mutations.said(-11, "")), ("nothing", "exit code 99", "ended by signal 11")
        )

    def test_runs_that_differ_are_counted(self):
        of = [mutations.Outcome("nothing", 1, 9), mutations.Outcome("`lost`", 1, 9), mutations.Outcome("`lost`", 1, 9)]
        self.assertEqual(mutations.cell(of), "2 of 3: `lost`; 1 of 3: nothing")
        self.assertEqual(mutations.cell(of[1:]), "`lost`")
        unchanged = [mutations.Outcome("nothing", 0, 0), mutations.Outcome("nothing", 0, 9)]
        self.assertEqual(mutations.cell([*of[1:], *unchanged]), "2 of 4: `lost`; 1 of 4: no chance; 1 of 4: not reached")

    def test_perf_analyzer_is_told_the_sums(self):
        told = mutations.expected()
        self.assertEqual([step["OUTPUT"] for step in told["validation_data"][1][:3]], [[1001], [2003], [3006]])

    def test_rows_take_the_place_of_rows_of_the_same_mutation(self):
        page = self.folder / "page.md"
        head = "a\n\n| mutation | at | sequence-stress | perf_analyzer |\n|---|---|---|---|\n"
        over_http = head.replace("a\n\n| mutation |", "b\n\n| mutation over HTTP |")
        page.write_text(f"{head}| `add-start` | each | x | y |\n| `gone` | once | x | y |\n\n{over_http}\nc\n")
        with unittest.mock.patch.object(mutations, "PAGE", page):
            mutations.write(["| `lose-start` | once | 1 | 2 |", "| `add-start` | each | 3 | 4 |"], mutations.GRPC)
            mutations.write(["| `add-end` | once | 5 | 6 |"], mutations.HTTP)
        grpc = f"{head}| `lose-start` | once | 1 | 2 |\n| `add-start` | each | 3 | 4 |\n\n"
        self.assertEqual(page.read_text(), f"{grpc}{over_http}| `add-end` | once | 5 | 6 |\n\nc\n")


class Limits(unittest.TestCase):
    def test_a_search_of_the_tool_is_told_in_a_word(self):
        found = {"ended": "found", "sustained": 8.0, "overloaded": 9.0}
        self.assertEqual(limit.told(found), "8 to 9")
        self.assertEqual(limit.told({**found, "overloaded": None}), "8 or more")
        self.assertEqual(limit.told({**found, "sustained": None}), "below 9")
        violation = {"violations_by_kind": {"wrong-sum": 3}}
        self.assertEqual(limit.told({"ended": "violation", "violation": violation, "trials": [{"load": 4.0}]}), "violation at 4: wrong-sum")

    def test_the_highest_number_of_perf_analyzers_summary_counts(self):
        summary = "Inferences/Second vs. Client p99 Batch Latency\nConcurrency: 1, throughput: 9.9 infer/sec\nConcurrency: 12, throughput: 80 infer/sec\n"
        self.assertEqual(limit.highest("Request concurrency: 32\nMeasured latency went over the set limit of 50 msec.\n" + summary), "12")
        self.assertEqual(limit.highest("Request concurrency: 1\nMeasured latency went over the set limit of 50 msec.\n"), "none")
        with self.assertRaisesRegex(BenchError, "printed no result"):
            limit.highest("cannot connect\n")


class Programs(InAFolder):
    def run_script(self, text, **more):
        return measuring.run("it", [self.script(text)], self.folder / "output.log", more.pop("time_limit", 20), **more)

    def test_what_it_printed_and_cost_is_returned(self):
        ran = self.run_script("echo out; echo error >&2; exit 3", codes=(0, 3))
        self.assertEqual((ran.code, ran.output), (3, "out\nerror\n"))
        self.assertGreater(ran.cpu_s, 0)

    def test_a_failure_is_one_line(self):
        with self.assertRaisesRegex(BenchError, "^it exited with code 7; its last output: last$"):
            self.run_script("echo first; echo last; exit 7")
        with self.assertRaisesRegex(BenchError, "^it was ended by SIGTERM; its last output: none$"):
            self.run_script("kill $$")
        with self.assertRaisesRegex(BenchError, "^cannot run it .*: No such file or directory$"):
            measuring.run("it", [self.folder / "none"], self.folder / "output.log", 1)

    def test_one_that_hangs_is_killed_with_its_children(self):
        began = time.monotonic()
        with self.assertRaisesRegex(Overdue, "^it ran for over 0.5 s and was killed; its last output: [0-9]+$"):
            self.run_script("sleep 300 & echo $!; trap '' TERM; wait", time_limit=0.5)
        self.assertLess(time.monotonic() - began, 20)
        child = int((self.folder / "output.log").read_text())
        deadline = time.monotonic() + 10
        while is_running(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_running(child))

    def test_a_variable_names_a_program_and_a_build_sets_the_variable(self):
        there = self.script("")
        with unittest.mock.patch.dict(os.environ, {"SEQUENCE_STRESS_BARE_CLIENT": str(there)}):
            self.assertEqual(measuring.bare_client(), str(there))
        build = unittest.mock.patch("triton.native.built", return_value=there)
        with unittest.mock.patch.dict(os.environ, clear=True), build as built:
            self.assertEqual(measuring.tool(), str(there))
            self.assertEqual(os.environ["SEQUENCE_STRESS_TOOL"], str(there))
            measuring.tool()
            built.assert_called_once_with("SEQUENCE_STRESS_TOOL", "sequence-stress", "sequence-stress", "-p", "sequence-stress", profile="dist")


class Counting(unittest.TestCase):
    def counted(self, successes, death=None, alone=0):
        statistics = [{"success": {"count": count}} for count in successes]
        triton = types.SimpleNamespace(label=lambda: "tritonserver 24.10", death=lambda: death)
        sent = measuring.Sent(32, 1.0, None, alone=alone)
        with (
            unittest.mock.patch.object(measuring, "statistics_of", side_effect=statistics + statistics[-1:] * 1000),
            unittest.mock.patch.object(measuring, "SETTLE_SECONDS", 0.2),
        ):
            return measuring.counted("it", triton, "m", lambda: sent)

    def test_the_servers_count_may_come_late(self):
        _, before, after = self.counted([100, 110, 132])
        self.assertEqual((before["success"]["count"], after["success"]["count"]), (100, 132))

    def test_what_is_sent_before_the_run_counts_for_the_server_alone(self):
        self.counted([100, 132, 135], alone=3)
        with self.assertRaisesRegex(BenchError, "^it counted 32 responses and the server 29 successes$"):
            self.counted([100, 132], alone=3)

    def test_another_count_is_an_error(self):
        for successes in (131, 158):
            with self.assertRaisesRegex(BenchError, f"^it counted 32 responses and the server {successes - 100} successes$"):
                self.counted([100, successes])

    def test_the_tool_sends_no_requests_that_the_others_do_not(self):
        self.assertIs(tomllib.loads(measuring.SCENARIO)["slots"]["check"], False)


class PerfAnalyzer(InAFolder):
    def setUp(self):
        super().setUp()
        self.ran = []

    def round(self, text, time_limit=20):
        analyzer = clients.Analyzer(options(time_limit=time_limit), self.folder, self.script(text), [])

        def ours(seed):
            self.ran.append(seed)
            return {"requests": 32}

        return rounds.measured(options(), [[(clients.OURS, ours), (clients.ANALYZER, lambda _seed: analyzer.send("127.0.0.1:1").row())]])

    def test_what_it_reports_is_read(self):
        with said():
            (rows,) = self.round(REPORT)
        self.assertEqual(list(rows), [clients.OURS, clients.ANALYZER])
        analyzer = rows[clients.ANALYZER]
        self.assertEqual((analyzer["requests"], analyzer["requests_per_second"]), (32, 512.5))
        with self.assertRaisesRegex(BenchError, "^perf_analyzer printed no count or throughput; its last output: hello$"):
            self.round("echo hello")

    def test_its_first_hang_repeats_the_round_aloud(self):
        with said() as text:
            (rows,) = self.round(f"mkdir {self.folder}/hung 2>/dev/null && exec sleep 300; {REPORT}", time_limit=2)
        self.assertEqual(rows[clients.ANALYZER]["requests"], 32)
        # The other program ran again, too.
        self.assertEqual(self.ran, [1, 1])
        self.assertRegex(text.getvalue(), r"^bench: perf_analyzer ran for over 2 s and was killed; .*; repeating round 1 of 1 \(attempt 2 of 3\)\n")

    def test_the_third_hang_is_an_error_on_one_line(self):
        with said() as text, self.assertRaises(BenchError) as caught:
            self.round("exec sleep 300", time_limit=0.3)
        self.assertEqual(self.ran, [1, 1, 1])
        self.assertEqual(text.getvalue().count("repeating round 1 of 1"), 2)
        self.assertRegex(
            str(caught.exception), r"^round 1 of 1 did not end in 3 attempts: perf_analyzer ran .*; pass --skip-perf-analyzer, or a longer --time-limit$"
        )


class Rounds(InAFolder):
    def test_each_round_begins_a_group_with_another_row(self):
        order = []

        def measure(row):
            return row, lambda seed: order.append((seed, row)) or {"requests": 1}

        with said():
            each = rounds.measured(options(rounds=2), [[measure("a"), measure("b")], [measure("c")]])
        self.assertEqual(order, [(1, "a"), (1, "b"), (1, "c"), (2, "b"), (2, "a"), (2, "c")])
        self.assertEqual([list(rows) for rows in each], [["a", "b", "c"]] * 2)

    def test_rows_of_other_numbers_of_requests_are_not_compared(self):
        rounds.check_requests([{"a": {"requests": 8}, "b": {"requests": 8}}])
        with self.assertRaisesRegex(BenchError, "different numbers of responses: a 8, b 9"):
            rounds.check_requests([{"a": {"requests": 8}, "b": {"requests": 9}}])

    def test_a_failure_of_ours_is_not_repeated(self):
        measure = unittest.mock.Mock(side_effect=Overdue("sequence-stress ran for over 1 s and was killed"))
        with self.assertRaises(Overdue):
            rounds.measured(options(), [[("a", measure)]])
        measure.assert_called_once()
        self.assertFalse(issubclass(Overdue, Stuck))

    def report(self, pairs, more=(), **given):
        figures = [{"a": {"requests": 8, "x": 2.0 * n}, "b": {"requests": 8, "x": 1.0}} for n in (1, 2, 6)]
        with contextlib.redirect_stdout(io.StringIO()) as text, unittest.mock.patch.object(rounds, "RESULTS", self.folder / "results"):
            code = rounds.report(options(**given), self.folder, "to it", figures, {"x": ("the x", 1)}, pairs, more)
        return code, text.getvalue().splitlines()

    def test_the_verdict_comes_first_and_the_table_after(self):
        code, lines = self.report([Pair("x, a / b", "a", "b", "x", at_most=4), Pair("x, a - b", "a", "b", "x", is_ratio=False)])
        self.assertEqual(code, 0)
        table = ["   the x", "a  4.0 (2.0..12.0)", "b  1.0 (1.0..1.0)"]
        compared = ["x, a / b: 4.00 (2.00..12.00) (limit: at most 4)", "x, a - b: 3.00 (1.00..11.00)"]
        self.assertEqual(lines[:-1], ["every limit is kept", "median (min..max) of 3 rounds of 8 requests to it", *table, *compared])
        document = json.loads(Path(lines[-1].removeprefix("results: ")).read_text())
        self.assertEqual(document["options"]["benchmark"], "clients")
        self.assertEqual(document["summary"]["compared"]["x, a / b"], {"median": 4, "min": 2, "max": 12})

    def test_a_missed_limit_is_exit_code_3(self):
        for pair in (Pair("x", "a", "b", "x", at_most=3.9), Pair("x", "a", "b", "x", at_least=4.1)):
            code, lines = self.report([pair])
            self.assertEqual((code, lines[0]), (3, "limit missed: x"))
        code, lines = self.report([], [("too much memory", False, 9)])
        self.assertEqual((code, lines[0]), (3, "limit missed: too much memory"))

    def test_the_quick_form_judges_no_limit_and_keeps_no_results(self):
        code, lines = self.report([Pair("x", "a", "b", "x", at_most=0)], quick=True)
        self.assertEqual((code, lines[-1]), (0, "results: not kept"))
        self.assertIn("the figures mean nothing", lines[0])
        self.assertFalse((self.folder / "results").exists())


class Transports(unittest.TestCase):
    def test_every_kind_is_compared_and_calls_may_cost_more_than_streams(self):
        kinds, pairs = transports.pairs_of(transports.TRANSPORTS, True)
        self.assertEqual((len(kinds), len(pairs)), (8, 16))
        limits = {pair.of: pair.at_most for pair in pairs if pair.limit()}
        self.assertEqual(len(limits), 8)
        self.assertEqual((limits["grpc-stream, TLS: sequence-stress"], limits["http: sequence-stress"]), (1.15, 1.25))
        kinds, pairs = transports.pairs_of(["http"], False)
        self.assertEqual(kinds, [("http", False)])
        self.assertEqual([(pair.of, pair.to) for pair in pairs], [("http: sequence-stress", "http: bare client")])


class Compare(InAFolder):
    def bench(self, codes, percents=(20.0,), **more):
        """The exit code and what is printed, with a tool that ends with these codes in turn."""
        documents = [{"comparisons": [{"measures": [{"name": "step.p50", "ratio": 1 + percent / 100}]}]} for percent in percents]
        (self.folder / "document").write_text(json.dumps(documents[0]))
        for place, code in enumerate(codes):
            (self.folder / f"code-{place}").write_text(str(code))
        text = f"""cd {self.folder}; echo "$@" >> commands; echo verdict
            while [ "$1" != --json ]; do shift; done; cp document "$2"
            n=$(cat n 2> /dev/null || echo 0); echo $((n + 1)) > n; exit $(cat code-$n)"""
        given = dict(runs=3, seconds=2, execution_ms=20, slower=20, embedded=True, **more)
        scratch, results = self.folder / "scratch", self.folder / "results"
        scratch.mkdir()
        tool = unittest.mock.patch.dict(os.environ, {"SEQUENCE_STRESS_TOOL": str(self.script(text))})
        out = contextlib.redirect_stdout(io.StringIO())
        # The folder of `rounds.written` is given as that name.
        with tool, said(), out as printed, unittest.mock.patch.object(compare, "RESULTS", results):
            code = compare.bench(options(**{**given, "rounds": len(codes) // 2}), scratch)
        return code, printed.getvalue().splitlines()

    def test_each_trial_compares_equal_servers_and_a_slower_one(self):
        # The second trial begins with the slower one.
        code, lines = self.bench([0, 5, 5, 3])
        self.assertEqual(code, 0)
        self.assertEqual(lines[0], "equal servers: right in 2 of 2 trials (regression 0, no regression 1, unknown 1); step.p50 20.0 (20.0..20.0) %")
        self.assertTrue(lines[1].startswith("a slower server: right in 2 of 2 trials (regression 2,"), lines)
        commands = (self.folder / "commands").read_text().splitlines()
        executions = [[word for word in command.split() if word.endswith("ms")] for command in commands]
        self.assertEqual(executions, [["20ms", "20ms"], ["20ms", "24ms"], ["20ms", "24ms"], ["20ms", "20ms"]])

    def test_a_false_alarm_or_a_regression_that_is_missed_misses_the_limit(self):
        self.assertEqual(self.bench([5, 5])[0], rounds.LIMIT_MISSED)

    def test_a_regression_that_is_unknown_is_missed(self):
        self.assertEqual(self.bench([0, 3])[0], rounds.LIMIT_MISSED)

    def test_one_wrong_trial_in_twenty_is_allowed(self):
        trial = {compare.EQUAL: {"exit_code": 0, "step_p50_percent": None}}
        wrong = {compare.EQUAL: {"exit_code": 5, "step_p50_percent": 21.0}}
        right = [compare.told([trial] * (20 - count) + [wrong] * count, compare.EQUAL, (0, 3))[1] for count in (0, 1, 2)]
        self.assertEqual(right, [True, True, False])

    def test_a_violation_is_no_measurement(self):
        with self.assertRaisesRegex(BenchError, "^the comparison with equal servers exited with code 1; its last output: verdict$"):
            self.bench([1, 5])


class CommandLine(unittest.TestCase):
    def test_the_quick_form_replaces_options_that_the_benchmark_has(self):
        for name, module in command.BENCHMARKS.items():
            full, quick = vars(command.parsed([name])), vars(command.parsed([name, "--quick"]))
            self.assertEqual(set(module.QUICK) - set(full), set(), name)
            self.assertEqual({key: quick[key] for key in module.QUICK}, module.QUICK)

    def test_all_quick_forms_run_whatever_becomes_of_one(self):
        ran = []

        def bench(given, _scratch):
            ran.append((given.benchmark, given.quick))
            if given.benchmark == "models":
                raise BenchError("no model today")
            return 0

        fakes = [unittest.mock.patch.object(module, "bench", bench) for module in command.BENCHMARKS.values()]
        with contextlib.ExitStack() as stack, said() as text, contextlib.redirect_stdout(io.StringIO()) as out:
            for fake in fakes:
                stack.enter_context(fake)
            self.assertEqual(command.bench_all_quickly(), 1)
        self.assertEqual(ran, [(name, True) for name in command.BENCHMARKS])
        self.assertEqual(text.getvalue(), "bench: models: no model today\n")
        self.assertIn("failed: models", out.getvalue())


if __name__ == "__main__":
    unittest.main()
