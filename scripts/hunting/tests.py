"""What of the hunt can be tested without a server: `python3 -m unittest hunting.tests` in scripts/."""

import contextlib
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

from . import document, endpoints, fingerprint, learning, schedule, settings, tool, writing
from .endpoints import Commanded, EndpointError
from .findings import Book, Case, Finding, rate, span
from .hunt import Hunt, addresses


def failure(*conversations):
    return {"conversation": [{"worker": worker, "context": 0, "at_us": at, "acts": acts} for worker, at, acts in conversations]}


class Fingerprints(unittest.TestCase):
    def shape(self, *acts, **more):
        return fingerprint.shape({"conversation": [{"worker": 0, "context": 0, "at_us": 0, "acts": list(acts), **more}]})

    def test_values_times_and_how_many_steps_are_not_in_it(self):
        one = self.shape("send 0 START 5", "send 0 6", "pause 1171 us", "cancel 0")
        other = self.shape("send 0 START -9", "send 0 1", "send 0 2", "cancel 0")
        self.assertEqual(one, other)
        self.assertEqual(one, ["ID 1: START step cancel"])

    def test_what_the_client_does_is(self):
        self.assertEqual(self.shape("send 0 START END 1", "await 0", "close 0", accused=True), ["ID 1: START+END await (accused)"])
        self.assertEqual(self.shape("send 0 START 1", "await 0 <= 3", "pause 300000 us", "half-close 0"), ["ID 1: START await pause half-close"])
        acts = ["open 3 over fresh", "send 3 START 1", "reset 3", "open 1 over neighbour", "send 1 END 2"]
        self.assertEqual(self.shape(*acts), ["ID 1: open-fresh START reset open-neighbour@1 END@1"])

    def test_what_a_worker_does_stays_in_its_order(self):
        early, late = (7, 100, ["send 0 START 2", "cancel 0"]), (7, 950, ["send 0 START 3", "send 0 4"])
        other = (0, 90_000, ["send 0 START 1"])
        self.assertEqual(fingerprint.shape(failure(late, other, early)), ["ID 1: START cancel; ID 1: START step", "ID 1: later, START"])

    def test_workers_that_do_the_same_are_one_and_have_no_order(self):
        alike = [(worker, 0, ["send 0 START 1"]) for worker in range(3)]
        other = (5, 0, ["send 0 START 1", "send 0 2"])
        self.assertEqual(fingerprint.shape(failure(*alike, other)), ["ID 1: START", "ID 1: START step"])
        self.assertEqual(fingerprint.shape(failure(other, *alike)), ["ID 1: START", "ID 1: START step"])

    def test_kind_cause_and_shape_are_what_tells_them_apart(self):
        names = {fingerprint.fingerprint(kind, cause, lines) for kind in "ab" for cause in ("", "c") for lines in (["x"], ["y"])}
        self.assertEqual(len(names), 8)

    def test_messages_are_counted(self):
        self.assertEqual(fingerprint.messages(failure((0, 0, ["send 0 START 1", "await 0"]), (1, 0, ["send 0 2"]))), 2)


class Settings(unittest.TestCase):
    def test_each_delay_comes_with_each_execution_time_behind_those_without(self):
        turns = settings.axes([1, 20], settings.delays("complete=3,process"))
        told = ["execution 1 ms", "execution 20 ms"]
        told += [f"execution {ms} ms, {delay}" for delay in ("complete 3 ms", "process 5 ms") for ms in (1, 20)]
        self.assertEqual(list(map(str, turns)), told)
        self.assertEqual(turns[2].variables(), {"TRITONSERVER_DELAY_GRPC_COMPLETE": "3"})
        self.assertEqual(turns[2].options(), "--execute-delay-ms 1 --server-env=TRITONSERVER_DELAY_GRPC_COMPLETE=3")
        self.assertEqual(turns[0].variables(), {})

    def test_all_is_each_of_them(self):
        self.assertEqual([name for name, _ in settings.delays("all")], list(settings.DELAYS))

    def test_what_is_no_delay_is_an_error(self):
        for text, problem in [("slow", "'slow' is none of process, "), ("complete=0", "is not complete=MS"), ("complete=x", "is not complete=MS")]:
            with self.assertRaisesRegex(ValueError, problem):
                settings.delays(text)

    def test_a_server_that_does_not_know_a_delay_has_none(self):
        old = types.SimpleNamespace(knows=lambda variable: variable == settings.DELAYS["complete"])
        complete, enqueue = settings.axes([20], settings.delays("complete,enqueue"))[1:]
        self.assertEqual(complete.known_to(old), complete)
        self.assertEqual(str(enqueue.known_to(old)), "execution 20 ms")


class Schedules(unittest.TestCase):
    def sweeps(self, seeds):
        return list(schedule.sweeps(["1", "2", "3"], ["x", "y"], ["a", "b", "c", "d"], 7, seeds))

    def test_each_sweep_sees_all_releases_and_models(self):
        for sweep in self.sweeps(1):
            self.assertEqual({(turn.release, turn.model) for turns in sweep for turn in turns}, {(r, m) for r in "123" for m in "xy"})

    def test_each_of_them_gets_all_scenarios_with_each_seed_once(self):
        turns = [turn for sweep in self.sweeps(2) for turns in sweep for turn in turns]
        self.assertEqual(len(turns), 3 * 2 * 4 * 2)
        self.assertEqual(len(set(turns)), len(turns))
        self.assertEqual({turn.seed for turn in turns}, {7, 8})

    def test_a_short_hunt_meets_different_scenarios(self):
        first = self.sweeps(1)[0]
        self.assertEqual({turn.scenario for turns in first for turn in turns}, set("abcd"))

    def test_without_a_number_of_seeds_they_go_on(self):
        endless = schedule.sweeps(["1"], ["x"], ["a", "b"], 7)
        self.assertEqual([next(endless)[0][0].seed for _ in range(6)], [7, 7, 8, 8, 9, 9])

    def test_all_scenarios_meet_all_settings_in_time(self):
        rounds = schedule.sweeps(["1", "2"], ["x"], ["a", "b"], 7, 3, lambda _: ["p", "q", "r"])
        turns = [turn for sweep in rounds for turns in sweep for turn in turns]
        met = {(turn.release, turn.scenario, turn.setting) for turn in turns}
        self.assertEqual(len(met), 2 * 2 * 3, "in as many rounds as there are settings")
        for sweep in schedule.sweeps(["1"], ["x", "y"], ["a", "b"], 7, 1, lambda _: ["p", "q"]):
            self.assertEqual(len({turn.setting for turns in sweep for turn in turns}), 1, "a server has one setting")

    def test_half_of_the_time_goes_into_the_next_sweep_where_there_is_time_for_one(self):
        self.assertEqual(schedule.share(600, 100, 3), 100)
        self.assertEqual(schedule.share(150, 100, 3), 50)
        self.assertEqual(schedule.share(150, 0, 1), 150, "no sweep is to come")
        self.assertEqual(schedule.share(10_000, 100, 1), schedule.CASE_SECONDS_MAX)

    def test_what_is_not_worth_it_is_not_begun(self):
        self.assertEqual(schedule.share(100, 0, 0), 0)
        self.assertEqual(schedule.share(0, 100, 2), 0)
        self.assertEqual(schedule.share(10, 100, 2), 0)
        self.assertEqual(schedule.share(40, 100, 100), schedule.CASE_SECONDS_MIN)

    def test_the_clock_ends(self):
        now = [100.0]
        clock = schedule.Clock(60, lambda: now[0])
        self.assertEqual(clock.left(), 60)
        now[0] += 90
        self.assertEqual(clock.left(), 0)
        later = schedule.Clock(60, lambda: now[0])
        later.stop()
        self.assertEqual(later.left(), 0)


def row(runs, requests, pairs):
    return {"elapsed_s": 1.0, "runs": runs, "requests": requests, "pairs": pairs, "new_in_next_run": 0.5, "unseen_at_least": 7.0}


class Learnings(unittest.TestCase):
    def test_each_search_of_a_sweep_has_a_seed_of_its_own(self):
        turns = [turn for sweep in learning.sweeps(["1", "2"], ["m", "n"], 7, 3) for release in sweep for turn in release]
        self.assertEqual([turn.seed for turn in turns], list(range(7, 19)))
        self.assertEqual({(turn.release, turn.model) for turn in turns[:4]}, {("1", "m"), ("1", "n"), ("2", "m"), ("2", "n")})
        self.assertEqual({turn.scenario for turn in turns}, {learning.SEARCH})

    def test_the_tool_is_told_what_not_to_draw_and_what_was_learnt(self):
        its = learning.Learning("c.json", ["reset", "deadline"])
        words = its.words(schedule.Turn("1", "m", learning.SEARCH, 3), 30)
        self.assertEqual(words, ["search", "-m", "m", "-r", 3, "--duration", "30s", "--without", "reset,deadline", "--corpus", "c.json"])
        self.assertNotIn("--without", learning.Learning("c.json").words(schedule.Turn("1", "m", learning.SEARCH, 3), 30))

    def test_a_search_is_counted_by_its_runs_and_leaves_the_run_with_a_violation(self):
        its = learning.Learning("c.json")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "result.json")
            searched = {"coverage": [row(3, 50, 9), row(4, 80, 12)], "runs": 4, "violating": 1, "unknown": 2, "result": {"violations": [1]}}
            path.write_text(json.dumps(searched))
            self.assertEqual(its.take_in(path, 60.0), {"valid": 1, "with violations": 1, "unknown": 2})
            self.assertEqual(tool.result(path), {"violations": [1]})
            path.write_text(json.dumps({**searched, "violating": 0, "result": None, "coverage": [row(9, 30, 15)]}))
            self.assertEqual(its.take_in(path, 90.0), {"valid": 2, "unknown": 2})
            self.assertFalse(path.exists())
            self.assertEqual(its.take_in(path, 99.0), {})
            path.write_text(json.dumps({"violations": []}))
            self.assertEqual(its.take_in(path, 99.0), {})
        self.assertEqual([(its["elapsed_s"], its["runs"], its["requests"], its["pairs"]) for its in its.reached], [(60.0, 4, 80, 12), (90.0, 9, 110, 15)])

    def test_the_summary_has_no_more_rows_than_it_shows_and_the_last(self):
        for count in (1, 9, 10, 11, 19, 100, 101):
            reached = [row(number, number, number) for number in range(1, count + 1)]
            rows = writing.reached_table(reached)[2:]
            self.assertLessEqual(len(rows), writing.REACHED_ROWS + 1)
            self.assertIn(f"| {count} |", rows[-1])


class Overlaps(unittest.TestCase):
    def overlap(self, folder, *corpora):
        files = []
        for number, pairs in enumerate(corpora):
            files.append(pathlib.Path(folder, f"{number}.json"))
            files[-1].write_text(pairs if isinstance(pairs, str) else json.dumps({"reached": [[{"at": at, "then": 1}, 3] for at in pairs]}))
        script = pathlib.Path(__file__).resolve().parents[1] / "overlap"
        return subprocess.run([sys.executable, script, *files], capture_output=True, text=True, check=False)

    def test_what_two_searches_have_in_common_and_how_many_pairs_there_may_be(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.overlap(folder, list("abcdef"), list("defg"), list("xyz"))
        rows = [line.split()[1::2][:1] + line.split()[3:] for line in done.stdout.splitlines()[1:]]
        self.assertEqual(rows, [["6", "4", "3", "3", "1", "8"], ["6", "3", "0", "6", "3", "?"], ["4", "3", "0", "4", "3", "?"]], done)

    def test_what_is_no_corpus_is_told_in_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for corpora, told in [([["a"]], "give two files"), ([["a"], "{}"], "is no corpus of a search"), ([["a"], "no"], "is no corpus of a search")]:
                done = self.overlap(folder, *corpora)
                self.assertEqual((done.returncode, told in done.stderr.splitlines()[-1]), (2, True), done.stderr)


class Outputs(unittest.TestCase):
    def ran(self, output, in_time=True):
        return tool.Ran(1, output, in_time)

    def test_rates_are_read(self):
        text = "slot-leak: failed in 2 of 5 runs\nwrong-sum instead in 1 run\n4 messages in 2 conversations; a seed fixes"
        self.assertEqual(tool.replayed(self.ran(text), "slot-leak", 5), tool.Replayed(2, 5, ("wrong-sum",)))
        text = "slot-leak: did not fail in 5 runs; more runs may show it (-n)"
        self.assertEqual(tool.replayed(self.ran(text), "slot-leak", 5), tool.Replayed(0, 5))
        self.assertEqual(tool.replayed(self.ran(text, False), "slot-leak", 9), tool.Replayed(0, 5, (), "the time was up"))
        broken = self.ran("sequence-stress: cannot test 127.0.0.1:1: nobody is there")
        self.assertEqual(tool.replayed(broken, "slot-leak", 5).problem, "sequence-stress: cannot test 127.0.0.1:1: nobody is there")

    def test_the_last_chart_and_its_cause_are_found(self):
        earlier = "a\n-> is sent by the client, x\nold\nwrong-sum: failed in 1 of 3 runs\n"
        text = f"{earlier}-> is sent by the client, x\n row\n✗ wrong-sum: w\n  cause shared-state: Two\n5 messages left of 9"
        self.assertEqual(tool.chart(text), "-> is sent by the client, x\n row\n✗ wrong-sum: w\n  cause shared-state: Two")
        self.assertEqual(tool.cause(text), "shared-state")
        self.assertEqual((tool.chart("none"), tool.cause("none")), ("", ""))

    def test_a_result_that_is_not_there_has_no_violation(self):
        self.assertIsNone(tool.violation(tool.result(pathlib.Path("/nowhere/result.json"))))
        with tempfile.TemporaryDirectory() as folder:
            for text in ["", "[]", '{"verdict": "valid"}']:
                path = pathlib.Path(folder, "result.json")
                path.write_text(text)
                self.assertIsNone(tool.result(path), text)
        self.assertIsNone(tool.violation({"violations": []}))

    def test_what_does_not_end_is_ended(self):
        sleeper = tool.Tool("/bin/sleep")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            ran = sleeper.run("60", limit=0.1)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((ran.in_time, ran.hung), (False, False))
        with self.assertRaisesRegex(tool.ToolError, "cannot run"):
            tool.Tool("/nowhere/tool").run(limit=1)


class Array:
    """What the script's comparison knows of NumPy's arrays."""

    def __init__(self, values, dtype="int32"):
        self.flat, self.size, self.dtype = list(values), len(values), dtype


class Scripts(unittest.TestCase):
    """How an exported script judges a response, without a server: one of a finding, which has an unjudged response."""

    def judged(self, seen, expect):
        numpy = types.ModuleType("numpy")
        numpy.full = lambda shape, value, dtype: Array([value] * math.prod(shape), dtype)
        numpy.array_equal = lambda one, other: one.flat == other.flat
        triton = types.ModuleType("tritonclient.grpc")
        triton.InferenceServerClient = object
        package = types.ModuleType("tritonclient")
        package.grpc = triton
        finding = pathlib.Path(__file__).resolve().parents[2] / "docs/findings/slot-given-twice-at-end.md"
        source = finding.read_text().split("```python\n")[1].split("```")[0]
        # Behind this line the script begins to send.
        definitions = source.split("\nfaulthandler.")[0]
        script = {}
        modules = {"numpy": numpy, "tritonclient": package, "tritonclient.grpc": triton}
        with unittest.mock.patch.dict("sys.modules", modules), unittest.mock.patch("sys.argv", ["script"]):
            exec(compile(definitions, str(finding), "exec"), script)
        return script["is_right"](seen, expect, [1, 1])

    def test_responses_are_compared(self):
        self.assertTrue(self.judged(Array([5]), 5))
        self.assertFalse(self.judged(Array([6]), 5))
        self.assertFalse(self.judged(Array([5], "int64"), 5))
        self.assertTrue(self.judged(Array([6]), None))

    def test_a_response_without_output_is_right_only_where_nothing_is_determined(self):
        self.assertTrue(self.judged(None, None))
        self.assertFalse(self.judged(None, 5))

    def test_an_error_is_right_only_where_it_may_come(self):
        rejection = Exception("[400] inference request must specify the START flag on the first request")
        self.assertTrue(self.judged(rejection, None))
        self.assertTrue(self.judged(rejection, ("must specify the START flag",)))
        self.assertFalse(self.judged(rejection, 5))
        self.assertFalse(self.judged(Exception("other"), None))


def case(release="24.03", scenario="s", kind="wrong-sum", cause="c"):
    return Case(schedule.Turn(release, "m", scenario, 1), kind, cause, "words", command="sequence-stress -r 1")


def small(the_case, shape=("A: START",), **more):
    return Finding(the_case.kind, the_case.cause, list(shape), the_case, "1 message left", is_small=bool(shape), messages=1, **more)


class Findings(unittest.TestCase):
    def test_the_same_shape_is_the_same_finding(self):
        book = Book()
        first, is_new = book.add(small(case()))
        again, is_new_again = book.add(small(case(release="24.01", scenario="t")))
        self.assertEqual((is_new, is_new_again, again is first), (True, False, True))
        self.assertEqual((dict(first.met), first.scenarios), ({"24.03": 1, "24.01": 1}, {"s", "t"}))
        _, is_new = book.add(small(case(), shape=["A: START", "B: START"]))
        self.assertTrue(is_new)

    def test_what_was_not_made_small_goes_by_kind_and_cause(self):
        book = Book()
        first, _ = book.add(small(case()))
        self.assertIs(book.add(small(case(scenario="t"), shape=()))[0], first)
        large, is_new = book.add(small(case(cause="other"), shape=()))
        self.assertTrue(is_new)
        # Once one of them was made small it is that one.
        now_small, is_new = book.add(small(case(cause="other", release="24.01")))
        self.assertEqual((is_new, book.findings, now_small.met.total()), (True, [first, now_small], 2))
        self.assertIs(book.known_as(case(cause="other")), now_small)
        self.assertIsNot(large, now_small)

    def test_what_is_smaller_takes_the_place_of_what_is_not(self):
        book = Book()
        for messages, shape in [(90, []), (31, ["ID 1: x"]), (40, ["ID 1: y"]), (50, [])]:
            finding = small(case(), shape=shape)
            finding.messages, finding.is_small = messages, False
            book.add(finding)
        self.assertEqual([(finding.messages, finding.met.total()) for finding in book.findings], [(31, 4)])

    def test_a_case_like_one_before_is_known_where_that_failed(self):
        book = Book()
        self.assertIsNone(book.known_as(case()))
        finding, _ = book.add(small(case()))
        self.assertIs(book.known_as(case(release="23.04")), finding)
        finding.releases = {"23.04": tool.Replayed(0, 5), "24.01": tool.Replayed(1, 5)}
        self.assertIsNone(book.known_as(case(release="23.04")), "it is not in that release, so this is another")
        self.assertIs(book.known_as(case(release="24.01")), finding)
        self.assertIsNone(book.known_as(case(scenario="another")))

    def test_from_and_until_which_release(self):
        releases = ["1", "2", "3", "4"]
        self.assertEqual(span(releases, {"2"}), "2")
        self.assertEqual(span(releases, {"1", "2", "3", "4"}), "1 to 4")
        self.assertEqual(span(releases, {"1", "4"}), "1 to 4, not in 2, 3")
        self.assertEqual(span(releases, set()), "in none that was tried")
        more = [*releases, "hybrid-26.08", "server-2.60.0"]
        self.assertEqual(span(more, {"1", "2", "hybrid-26.08"}), "1 to 2, hybrid-26.08, not in server-2.60.0")
        self.assertEqual(span(more, {"server-2.60.0"}), "server-2.60.0, not in hybrid-26.08")
        self.assertEqual(span(more, set()), "in none that was tried")

    def test_rates_say_what_is_not_known(self):
        self.assertEqual(rate(None), "not tried")
        self.assertEqual(rate(tool.Replayed(0, 0, (), "the time was up")), "not known: the time was up")
        self.assertEqual(rate(tool.Replayed(1, 5, ("lost",))), "1 of 5 (lost besides)")


class Written(unittest.TestCase):
    endpoints = types.SimpleNamespace(starter=lambda release, _setting: f"scripts/with-triton --release {release}", can_reload=True)

    def test_a_finding_has_all_that_a_report_needs(self):
        finding = small(case(), failure="kind = 1", script="print()", chart="-> chart")
        finding.meet(case())
        finding.releases = {"24.03": tool.Replayed(4, 5), "24.10": tool.Replayed(0, 5)}
        with tempfile.TemporaryDirectory() as folder:
            name = writing.write(pathlib.Path(folder), 1, finding, ["24.03", "24.10"], self.endpoints)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder, name).iterdir()), ["failure.toml", "finding.md", "repeat.py"])
            text = pathlib.Path(folder, name, "finding.md").read_text()
        for part in ["# wrong-sum, c", "Fails: 24.03\n", "| 24.10 | 0 of 5 | 0 |", "A: START", "-> chart", "replay failure.toml -n 10 --reload", "repeat.py"]:
            self.assertIn(part, text)

    def test_a_death_is_told_with_the_servers_log(self):
        its = Case(schedule.Turn("24.03", "m", "s", 1), "server-died", "", "words", death="was ended by SIGSEGV", log=("last words",))
        with tempfile.TemporaryDirectory() as folder:
            name = writing.write(pathlib.Path(folder), 2, small(its, shape=()), ["24.03"], self.endpoints)
            self.assertEqual(pathlib.Path(folder, name, "server.log").read_text(), "last words\n")
            self.assertIn("The server was ended by SIGSEGV", pathlib.Path(folder, name, "finding.md").read_text())

    def test_the_summary_says_what_was_run_when_nothing_was_found(self):
        text = writing.summary([], [], ["24.03"], {("24.03", "m", "s"): {"valid": 2}, ("24.03", "m", "t"): {"valid": 1, "unknown": 1}}, ["a note"], 90)
        for part in ["Nothing.", "| 24.03 | 3 valid, 1 unknown |", "1.5 minutes", "- a note"]:
            self.assertIn(part, text)


FAILURE = """
kind = "wrong-sum"
[[conversation]]
worker = 0
context = 0
at_us = 0
acts = ["send 0 START 1", "send 0 2"]
"""
SMALL = "wrong-sum: failed in 3 of 3 runs\n2 messages left of 9 after 4 trials: each is needed; written to x"
PARTLY = "2 messages left of 9 after 4 trials: interrupted before the smallest; written to x"


class CommandedServers(unittest.TestCase):
    """Servers that a command starts: small programs, which print what they are given."""

    def program(self, text):
        return [sys.executable, "-c", text]

    def test_a_line_that_does_not_end_is_waited_for_with_a_limit(self):
        reading, writing = os.pipe()
        pipe = self.enterContext(os.fdopen(reading, "rb"))
        output = endpoints.Output(pipe)
        os.write(writing, b"serving gRPC at 127.0.0.1:80")
        while not output.head:
            self.assertFalse(output.has_line.wait(0.01), "there is no line yet")
        self.assertEqual(output.first_line(limit=0), "serving gRPC at 127.0.0.1:80")
        os.write(writing, b"01\nmore\n")
        self.assertEqual(output.first_line(), "serving gRPC at 127.0.0.1:8001\n")
        os.close(writing)
        output.close()
        self.assertTrue(pipe.closed)
        self.assertEqual(output.end().splitlines()[1], "more")

    def test_a_line_without_its_end_names_no_address(self):
        server = Commanded(self.program("print('serving gRPC at 127.0.0.1:80', end='')"))
        with self.assertRaisesRegex(EndpointError, "but 'serving gRPC at 127.0.0.1:80'"), server.at("endpoint", None):
            self.fail("there is no server")

    def test_a_server_that_prints_more_than_a_pipe_holds_goes_on(self):
        text = "import sys; print('serving gRPC at 127.0.0.1:8001', flush=True); print('x' * (4 << 20), flush=True); sys.exit(7)"
        with Commanded(self.program(text)).at("endpoint", None) as server:
            server.process.wait(60)
            self.assertEqual((server.url, server.death()), ("127.0.0.1:8001", "exited with code 7"))


class Tritonservers(unittest.TestCase):
    def test_both_endpoints_are_named_because_scenarios_use_both(self):
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        server = endpoints.Triton(types.SimpleNamespace(grpc_port=1, http_port=2, metrics_port=3, scratch=folder))
        words = ["-u", "127.0.0.1:1,http://127.0.0.1:2", "--metrics-url", "127.0.0.1:3"]
        self.assertEqual(addresses(server), words)


class FakeServer:
    url, metrics, restart_command = "127.0.0.1:1", None, None

    def __init__(self, died=None):
        self.died = died

    def load(self, _model):
        pass

    def death(self):
        return self.died

    def log(self, _lines):
        return ["last words"]


class FakeEndpoints:
    """Servers that all end the same way, or that are not there."""

    releases, settings, can_reload = ["1", "2"], (None,), True

    def __init__(self, died=None, missing=()):
        self.died, self.missing = died, missing

    @contextlib.contextmanager
    def at(self, release, _setting=None, _model=None):
        if release in self.missing:
            raise EndpointError(f"no server {release}")
        yield FakeServer(self.died)

    def starter(self, release, _setting):
        return f"with-triton --release {release}"


class FakeTool:
    """Runs that find a violation, or do not; shrinking prints what it is given, in turn."""

    def __init__(self, ran, finds=True, shrinking=(SMALL,)):
        self.ran, self.finds, self.shrinking, self.commands = ran, finds, list(shrinking), []
        # What stands behind the name of a history that a run leaves.
        self.leaves = ""
        # How long the run may wait in the end, in a result without violations; none where it leaves no result.
        self.lawful_wait_us = None
        # The failure file that a run leaves.
        self.failure = FAILURE

    def version(self):
        return "0.0.1"

    def run(self, *words, limit):
        self.commands.append(words)
        if words[0] != "replay":
            if "--history" in words:
                history = words[words.index("--history") + 1]
                history.with_name(f"{history.name}{self.leaves}").write_text("events")
            if self.lawful_wait_us is not None:
                result = {"schema_version": 3, "violations": [], "limits_us": {"longest_lawful_wait": self.lawful_wait_us}}
                words[words.index("--json") + 1].write_text(json.dumps(result))
            if self.finds:
                words[words.index("--failure") + 1].write_text(self.failure)
                violation = {"kind": "wrong-sum", "sent": "a", "expected": "b", "seen": "c", "explanations": []}
                words[words.index("--json") + 1].write_text(json.dumps({"schema_version": 3, "violations": [violation]}))
            return self.ran
        if "--shrink" not in words:
            return tool.Ran(1, f"wrong-sum: failed in 1 of {words[-1]} runs", True)
        said = self.shrinking.pop(0)
        if "left of" in said:
            words[-1].write_text(FAILURE)
        return tool.Ran(1, said, True)

    def script(self, _failure):
        return "print()"


class Hunts(unittest.TestCase):
    def hunt(self, the_tool, endpoints=None, seconds=1000, **more):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            endpoints = endpoints or FakeEndpoints()
            hunt = Hunt(endpoints, the_tool, pathlib.Path(folder), schedule.Clock(seconds), run_seconds=1, runs=5, first_seed=1, **more)
            hunt.run(schedule.sweeps(endpoints.releases, ["m"], ["s"], 1, 1))
            hunt.is_complete = True
            text = hunt.write()
            self.left = sorted(path.name for path in pathlib.Path(folder, "runs").iterdir())
            self.document = json.loads(pathlib.Path(folder, document.NAME).read_text())
            self.folders = {path.name for path in pathlib.Path(folder).iterdir()}
            return hunt, text

    def test_a_server_that_dies_behind_a_run_is_a_finding_of_that_run(self):
        class Dying(FakeServer):
            loads = 0

            def load(self, _model):
                self.loads += 1
                if self.loads == 2:
                    self.died = "was ended by SIGSEGV"
                    raise EndpointError("it does not load m: connection refused")

        class Endpoints(FakeEndpoints):
            @contextlib.contextmanager
            def at(self, _release, _setting=None, _model=None):
                yield Dying()

        endpoints = Endpoints()
        endpoints.releases = ["1"]
        the_tool = FakeTool(tool.Ran(0, "", True), finds=False)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            hunt = Hunt(endpoints, the_tool, pathlib.Path(folder), schedule.Clock(1000), run_seconds=1, runs=5, first_seed=1)
            hunt.run(schedule.sweeps(["1"], ["m", "n"], ["s"], 1, 1))
            hunt.is_complete = True
            hunt.write()
        (finding,) = hunt.book.findings
        self.assertEqual((finding.kind, finding.case.turn.model), ("server-died", "m"))
        self.assertIn("SIGSEGV", finding.case.words)
        self.assertIn("-m m", finding.case.command)
        self.assertEqual(hunt.exit_code(), 1)

    def test_a_hunt_without_a_run_that_told_anything_is_no_success(self):
        for code, expected in [(0, 0), (5, 0), (3, 3), (4, 4)]:
            hunt, _ = self.hunt(FakeTool(tool.Ran(code, "", True), finds=False))
            self.assertEqual(hunt.exit_code(), expected, code)

    def test_a_violation_is_made_small_once_and_traced_over_the_releases(self):
        the_tool = FakeTool(tool.Ran(1, "", True))
        hunt, text = self.hunt(the_tool)
        (finding,) = hunt.book.findings
        self.assertEqual((finding.messages, finding.shape, dict(finding.met)), (2, ["ID 1: START step"], {"1": 1, "2": 1}))
        self.assertEqual({release: rate(its) for release, its in finding.releases.items()}, {"1": "1 of 5", "2": "1 of 5"})
        self.assertEqual(sum("--shrink" in words for words in the_tool.commands), 1)
        self.assertIn("| 1 to 2 | 2 |", text)

    def test_what_needs_more_time_gets_it_later(self):
        hunt, _ = self.hunt(FakeTool(tool.Ran(1, "", True), shrinking=[PARTLY, PARTLY, SMALL, SMALL]))
        self.assertEqual([finding.is_small for finding in hunt.book.findings], [True])

    def test_what_is_left_is_told_of_the_whole_failure(self):
        again = "2 messages left of 2 after 3 trials: each is needed; written to x"
        the_tool = FakeTool(tool.Ran(1, "", True), shrinking=[PARTLY, again, SMALL])
        the_tool.failure = FAILURE.replace('"send 0 2"', ", ".join(['"send 0 2"'] * 8))
        hunt, _ = self.hunt(the_tool)
        self.assertEqual([finding.shrunk for finding in hunt.book.findings], ["2 messages left of 9: each is needed"])
        self.assertEqual([finding["size"] for finding in self.document["findings"]], ["2 messages left of 9: each is needed"])

    def test_what_is_never_small_is_told_as_it_is(self):
        hunt, text = self.hunt(FakeTool(tool.Ran(1, "", True), shrinking=[PARTLY] * 20))
        self.assertEqual([finding.is_small for finding in hunt.book.findings], [False])
        self.assertIn("interrupted before the smallest", text)
        hunt, text = self.hunt(FakeTool(tool.Ran(1, "", True), shrinking=["did not fail in 3 runs"] * 2))
        self.assertIn("not made small: did not fail in 3 runs", text)

    def test_a_server_that_dies_is_a_finding_with_its_log(self):
        hunt, text = self.hunt(FakeTool(tool.Ran(4, "gone", True), finds=False), FakeEndpoints(died="was ended by SIGSEGV"))
        (finding,) = hunt.book.findings
        self.assertEqual((finding.kind, finding.case.log), ("server-died", ("last words",)))
        self.assertIn("server-died", text)

    def test_replays_that_a_server_dies_of_are_told(self):
        endpoints = FakeEndpoints(died="was ended by SIGSEGV")
        hunt, text = self.hunt(FakeTool(tool.Ran(1, "", True)), endpoints)
        (finding,) = hunt.book.findings
        self.assertEqual({release: its.failed for release, its in finding.releases.items()}, {"1": 1, "2": 1})
        self.assertIn("not made small, because the server dies of it", text)
        self.assertIn("was ended by SIGSEGV while wrong-sum was replayed; the end of its log is in runs/death-01-1.log", text)

    def test_releases_for_which_there_was_no_time_are_traced_later(self):
        finding = small(case())
        finding.releases = {"1": tool.Replayed(0, 0, (), tool.TIME_UP), "2": tool.Replayed(0, 0, (), "no server"), "3": tool.Replayed(0, 2, (), tool.TIME_UP)}
        self.assertEqual([release for release in "1234" if not finding.is_traced(release)], ["1", "4"])

    def test_a_run_that_does_not_end_is_a_finding(self):
        hunt, _ = self.hunt(FakeTool(tool.Ran(-9, "still there", False, hung=True), finds=False))
        (finding,) = hunt.book.findings
        self.assertIn("had to be killed: still there", finding.case.words)

    def test_a_run_that_waits_for_what_a_correct_server_may_still_do_is_no_finding(self):
        the_tool = FakeTool(tool.Ran(3, "interrupted", False), finds=False)
        the_tool.lawful_wait_us = 275_000_000
        hunt, _ = self.hunt(the_tool)
        self.assertEqual((hunt.book.findings, hunt.coverage["1", "m", "s"]), ([], {"ended early": 1}))
        the_tool.lawful_wait_us = 10_000_000
        hunt, _ = self.hunt(the_tool)
        self.assertEqual([finding.kind for finding in hunt.book.findings], ["did-not-end"])

    def test_a_server_that_is_not_there_is_told_and_the_others_go_on(self):
        hunt, text = self.hunt(FakeTool(tool.Ran(0, "", True), finds=False), FakeEndpoints(missing=["1"]))
        self.assertEqual(dict(hunt.coverage), {("1", "m", "s"): {"not run": 1}, ("2", "m", "s"): {"valid": 1}})
        self.assertIn("- 1: no server 1", text)
        self.assertEqual((hunt.exit_code(), self.document["notes"]), (0, ["1: no server 1"]))
        hunt, _ = self.hunt(FakeTool(tool.Ran(0, "", True), finds=False), FakeEndpoints(missing=["1", "2"]))
        self.assertEqual((hunt.exit_code(), self.document["exit_code"]), (4, 4))

    def test_a_run_that_is_rejected_is_told(self):
        _, text = self.hunt(FakeTool(tool.Ran(2, "line 3: no such key", True), finds=False))
        self.assertIn("exit code 2: line 3: no such key", text)
        _, text = self.hunt(FakeTool(tool.Ran(4, "the model has no texts", True), finds=False))
        self.assertIn("not run: the model has no texts", text)

    def test_an_interrupt_loses_nothing(self):
        the_tool = FakeTool(tool.Ran(1, "", True))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            hunt = Hunt(FakeEndpoints(), the_tool, pathlib.Path(folder), schedule.Clock(1000), run_seconds=1, runs=5)

            def shrink(*_arguments, **_more):
                raise KeyboardInterrupt

            hunt.replay = shrink
            with self.assertRaises(KeyboardInterrupt):
                hunt.run(schedule.sweeps(["1"], ["m"], ["s"], 1, 1))
            hunt.end()
            text = hunt.write()
            its = json.loads(pathlib.Path(folder, document.NAME).read_text())
        self.assertEqual([(finding.messages, finding.is_small) for finding in hunt.book.findings], [(2, False)])
        self.assertIn("not made small: the time was up", text)
        self.assertEqual((its["complete"], its["exit_code"], len(its["findings"]), its["waiting"]), (False, 1, 1, []))

    def test_an_interrupt_before_anything_was_found_leaves_what_was_run(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            hunt = Hunt(FakeEndpoints(), FakeTool(tool.Ran(0, "", True), finds=False), pathlib.Path(folder), schedule.Clock(1000), run_seconds=1, runs=5)
            hunt.release([schedule.Turn("1", "m", "s", 1)])
            hunt.end()
            hunt.write()
            its = json.loads(pathlib.Path(folder, document.NAME).read_text())
        self.assertEqual((its["complete"], its["exit_code"], its["first_seed"]), (False, 3, None))
        self.assertEqual((its["coverage"][0]["valid"], its["coverage"][0]["not_run"]), (1, 0))

    def test_what_nobody_looked_into_yet_is_told_and_counts(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            hunt = Hunt(FakeEndpoints(), FakeTool(tool.Ran(1, "", True)), pathlib.Path(folder), schedule.Clock(1000), run_seconds=1, runs=5)
            hunt.release([schedule.Turn("1", "m", "s", 1)])
            hunt.write()
            its = json.loads(pathlib.Path(folder, document.NAME).read_text())
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder, "runs").iterdir()), ["1-m-s-1.json", "1-m-s-1.toml"])
        self.assertEqual((its["exit_code"], its["findings"]), (1, []))
        self.assertEqual([(case["kind"], case["found"]["release"]) for case in its["waiting"]], [("wrong-sum", "1")])

    def test_the_result_and_the_history_of_the_run_that_found_something_are_kept(self):
        the_tool = FakeTool(tool.Ran(1, "", True))
        hunt, _ = self.hunt(the_tool, has_histories=True)
        self.assertEqual(self.left, ["1-m-s-1.json", "1-m-s-1.jsonl.zst", "1-m-s-1.small.toml", "1-m-s-1.toml", "2-m-s-1.toml", "traced.toml"])
        (finding,) = self.document["findings"]
        self.assertEqual((finding["name"] in self.folders, finding["result"]["violations"][0]["kind"]), (True, "wrong-sum"))
        self.assertEqual(finding["releases"][1], {"release": "2", "met": 1, "replays": {"failed": 1, "runs": 5, "otherwise": [], "problem": None}})
        self.assertEqual((finding["fingerprint"], finding["found"]["seed"]), (hunt.book.findings[0].fingerprint(), 1))
        whats = ["the run that found it", "the failure, in runs of its own", "the same with NVIDIA's client alone"]
        self.assertEqual([again["what"] for again in finding["again"]], whats)
        self.assertNotIn("--history", finding["again"][0]["command"])
        self.assertEqual((self.document["schema_version"], self.document["tool_version"], self.document["complete"]), (3, "0.0.1", True))

    def test_a_run_that_found_nothing_new_leaves_no_result_and_no_history(self):
        the_tool = FakeTool(tool.Ran(0, "", True), finds=False)
        self.hunt(the_tool, has_histories=True)
        self.assertEqual((self.left, self.document["findings"], self.document["exit_code"]), ([], [], 0))
        self.assertTrue(all("--history" in words for words in the_tool.commands))
        self.hunt(FakeTool(tool.Ran(1, "", True)))
        self.assertEqual([name for name in self.left if not name.endswith(".toml")], ["1-m-s-1.json"])
        killed = FakeTool(tool.Ran(-9, "", False, hung=True), finds=False)
        killed.leaves = ".part-000000"
        self.hunt(killed, has_histories=True)
        self.assertEqual((self.left, self.document["findings"][0]["result"]), ([], None))

    def test_a_hunt_that_learns_has_the_run_of_the_search_that_found_something(self):
        searched = {"schema_version": 3, "coverage": [row(5, 50, 9)], "runs": 5, "violating": 1, "unknown": 0}
        violation = {"kind": "wrong-sum", "sent": "a", "expected": "b", "seen": "c", "explanations": []}

        class Searching(FakeTool):
            def run(self, *words, limit):
                ran = super().run(*words, limit=limit)
                if words[0] == "search":
                    result = {"schema_version": 3, "violations": [violation]}
                    words[words.index("--json") + 1].write_text(json.dumps({**searched, "result": result}))
                return ran

        the_tool, endpoints = Searching(tool.Ran(1, "", True)), FakeEndpoints()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            learns = learning.Learning(pathlib.Path(folder, "corpus.json"))
            hunt = Hunt(endpoints, the_tool, pathlib.Path(folder), schedule.Clock(1000), 30, 5, 1, has_histories=True, learning=learns)
            hunt.run(learning.sweeps(["1"], ["m"], 1, 1))
            hunt.is_complete = True
            text = hunt.write()
            its = json.loads(pathlib.Path(folder, document.NAME).read_text())
        self.assertEqual(dict(hunt.coverage), {("1", "m", "search"): {"valid": 4, "with violations": 1}})
        self.assertEqual((its["reached"][0]["pairs"], its["findings"][0]["result"]["violations"]), (9, [violation]))
        self.assertIn("| 5 | 50 | 9 | 0.50 | 7 |", text)
        (search, *_) = the_tool.commands
        self.assertNotIn("--history-limit", search)

    def test_a_replay_with_another_violation_is_no_good_end(self):
        hunt, _ = self.hunt(FakeTool(tool.Ran(0, "", True), finds=False))
        finding = small(case())
        hunt.book.findings.append(finding)
        finding.releases = {"1": tool.Replayed(0, 5)}
        self.assertEqual(hunt.exit_code(), 0)
        finding.releases = {"1": tool.Replayed(0, 5, ("slot-leak",))}
        self.assertEqual(hunt.exit_code(), 1)

    def test_a_server_that_does_not_come_back_ends_its_turns(self):
        endpoints = FakeEndpoints()
        at, starts = endpoints.at, iter([True])
        endpoints.at = lambda *its: at(*its) if next(starts, False) else FakeEndpoints(missing=["1", "2"]).at(*its)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            hunt = Hunt(endpoints, FakeTool(tool.Ran(1, "", True)), pathlib.Path(folder), schedule.Clock(1000), run_seconds=1, runs=5)
            hunt.run(schedule.sweeps(["1"], ["m", "n"], ["s"], 1, 1))
            self.assertIn("no server 1", hunt.write())
        self.assertEqual(dict(hunt.coverage), {("1", "m", "s"): {"with violations": 1}, ("1", "n", "s"): {"not run": 1}})

    def test_when_the_time_is_up_nothing_more_is_begun(self):
        the_tool = FakeTool(tool.Ran(0, "", True), finds=False)
        self.hunt(the_tool, seconds=0)
        self.assertEqual(the_tool.commands, [])


TOOL = """#!/bin/sh
case "$1" in
scenarios) echo "ordering  sends in order" ;;
--version) echo "sequence-stress 0.0.1" ;;
report) echo "sequence-stress: cannot write the page: REASON" >&2; exit 2 ;;
*) exit 4 ;;
esac
"""


class CommandLines(unittest.TestCase):
    def hunt(self, folder, *words):
        tool_file = pathlib.Path(folder, "tool")
        tool_file.write_text(TOOL)
        tool_file.chmod(0o755)
        script = pathlib.Path(__file__).resolve().parents[1] / "hunt"
        command = [sys.executable, script, "--tool", tool_file, "--endpoint-command", "false", "--out", "out", "--seeds", "1", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    def test_files_that_cannot_be_written_are_told_before_anything_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "failure.toml").write_text(FAILURE)
            for words, told in [
                (["--html", "missing/page.html"], "there is no folder 'missing'"),
                (["--junit", "."], "'.' is a folder"),
                (["--html", "one", "--junit", "./one"], "'one' would overwrite the file of --html"),
                (["--junit", "out/hunt.json"], "would overwrite 'hunt.json' of the hunt"),
                (["--trace", "failure.toml", "--html", "failure.toml"], "would overwrite 'failure.toml', which is read"),
            ]:
                done = self.hunt(folder, *words)
                self.assertEqual((done.returncode, told in done.stderr.splitlines()[-1]), (2, True), done.stderr)
                self.assertFalse(pathlib.Path(folder, "out").exists())

    def test_what_a_hunt_that_learns_has_not_is_told_before_anything_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, told in [
                (["--without", "reset"], "only a hunt that learns"),
                (["--learn", "--only", "ordering"], "leave --only and --trace out"),
                (["--learn", "--corpus", "missing.json"], "there is no file 'missing.json'"),
                (["--learn", "--html", "out/corpus.json"], "would overwrite 'corpus.json' of the hunt"),
            ]:
                done = self.hunt(folder, *words)
                self.assertEqual((done.returncode, told in done.stderr.splitlines()[-1]), (2, True), done.stderr)
                self.assertFalse(pathlib.Path(folder, "out").exists())

    def test_a_report_that_fails_is_told_on_a_line_and_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.hunt(folder, "--html", "out/page.html", "--junit", "hunt.xml")
            its = json.loads(pathlib.Path(folder, "out", document.NAME).read_text())
        self.assertEqual((done.returncode, its["exit_code"], its["complete"], its["tool_version"]), (4, 4, True, "0.0.1"), done.stderr)
        (line,) = [line for line in done.stderr.splitlines() if "REASON" in line]
        self.assertIn("out/page.html and hunt.xml not written: sequence-stress: cannot write the page: REASON; try it again: ", line)
        self.assertIn("sequence-stress report out/hunt.json --html out/page.html --junit hunt.xml", line)


if __name__ == "__main__":
    unittest.main()
