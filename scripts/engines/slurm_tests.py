"""Tests of with-slurm: the cluster starts, and nothing of it remains; `python3 -m unittest engines.slurm_tests` within scripts/ runs them.

No test waits for a time to pass: each waits for an event, and LIMIT_SECONDS is for a machine that hangs.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from running import ServerError, end_with_parent

from . import processes, slurm
from .launch import WITH_SLURM
from .skipping import skip_without

LIMIT_SECONDS = 300
FOREVER = "exec sleep 100000"


def with_slurm(*words, preexec_fn=end_with_parent, **options):
    """A process of with-slurm, whose output is read as text."""
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, str(WITH_SLURM), *words], start_new_session=True, preexec_fn=preexec_fn, **pipes, **options)


def daemons_below(process):
    """The pids of Slurm's processes below a process, by their names."""
    found = {}
    for pid, name in processes.below(process.pid).items():
        if slurm.DAEMON.match(name):
            found.setdefault(name, []).append(pid)
    return found


def is_alive(pid):
    return pid in processes.running()


class WithSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        skip_without("srun")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # The first is where with-slurm makes its own folder.
        self.folder, self.scratch = Path(folder.name) / "own", Path(folder.name) / "scratch"
        self.folder.mkdir()
        self.scratch.mkdir()

    def start(self, *words, **options):
        process = with_slurm(*words, env={**os.environ, "TMPDIR": str(self.folder)}, **options)

        def end():
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=LIMIT_SECONDS)

        self.addCleanup(end)
        return process

    def ran(self, *words, **options):
        """Exit code, output and errors of a whole run; nothing remains of it."""
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(list(self.folder.iterdir()), [], err)
        return process.returncode, out, err

    def begun(self, *words):
        """A run whose command prints a line when it is there: the process, that line, and the pids of all processes below it."""
        process = self.start(*words)
        line = process.stdout.readline().strip()
        self.assertTrue(line, "the command printed nothing")
        found = daemons_below(process)
        self.assertEqual({name: len(pids) for name, pids in found.items() if name in ("munged", "slurmctld")}, {"munged": 1, "slurmctld": 1})
        return process, line, list(processes.below(process.pid))

    def assert_ended(self, process, pids, code):
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, code, err)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [], err)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_each_rank_of_a_step_knows_its_number_and_node(self):
        told = 'echo "$SLURM_PROCID of $SLURM_STEP_NUM_TASKS on $SLURMD_NODENAME"'
        code, out, err = self.ran("--", "srun", "-N4", "-n4", "sh", "-c", told)
        self.assertEqual((code, sorted(out.split("\n"))[1:]), (0, [f"{rank} of 4 on node{rank + 1}" for rank in range(4)]), err)

    def test_there_are_as_many_nodes_as_are_asked_for(self):
        code, out, err = self.ran("-N", "2", "--", "sinfo", "-h", "-N", "-o", "%N %T")
        self.assertEqual((code, out), (0, "node1 idle\nnode2 idle\n"), err)

    def test_the_exit_code_is_that_of_the_command(self):
        self.assertEqual(self.ran("-N", "1", "--", "sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.ran("-N", "1", "--", "srun", "-n1", "sh", "-c", "exit 9")[0], 9)
        code, _, err = self.ran("-N", "1", "--", "nothing-of-this-name")
        self.assertEqual(code, 127)
        self.assertIn("with-slurm: cannot run 'nothing-of-this-name'", err)

    def test_signals_end_the_command_and_every_daemon(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number.name):
                process, _, pids = self.begun("-N", "2", "--", "sh", "-c", f"echo here; {FOREVER}")
                # munged, slurmctld and its helper, two slurmd, the command.
                self.assertGreaterEqual(len(pids), 6)
                process.send_signal(number)
                self.assert_ended(process, pids, 128 + number)

    def test_a_job_that_the_command_leaves_behind_ends(self):
        pid, script = self.scratch / "pid", self.scratch / "job"
        # The job ignores SIGTERM, as its processes may.
        script.write_text(f"#!/bin/sh\nsrun sh -c 'trap \"\" TERM; echo $$ >{pid}.new; mv {pid}.new {pid}; {FOREVER}'\n")
        until_it_runs = f"until [ -e {pid} ]; do sleep 0.02; done; echo here"
        process, _, pids = self.begun("-N", "1", "--", "sh", "-c", f"sbatch -Q -n1 -o /dev/null {script}; {until_it_runs}; {FOREVER}")
        job_pid = int(pid.read_text())
        self.assertIn("slurmstepd", daemons_below(process))
        self.assertIn(job_pid, pids)
        process.terminate()
        self.assert_ended(process, [*pids, job_pid], 143)

    def test_a_command_that_hangs_is_ended_at_the_limit(self):
        code, _, err = self.ran("-N", "1", "--time-limit", "1", "--", "srun", "-n1", "sh", "-c", FOREVER)
        self.assertEqual(code, 124)
        self.assertIn("with-slurm: 'srun' ran for over 1 s: ending it", err)

    def test_the_daemons_end_with_with_slurm_whatever_ends_it(self):
        process, _, pids = self.begun("-N", "1", "--", "sh", "-c", f"echo here; {FOREVER}")
        daemons = [pid for found in daemons_below(process).values() for pid in found]
        process.kill()
        process.wait(LIMIT_SECONDS)
        until = time.monotonic() + LIMIT_SECONDS
        while any(map(is_alive, daemons)) and time.monotonic() < until:
            time.sleep(processes.POLL_SECONDS)
        self.assertEqual([pid for pid in daemons if is_alive(pid)], [])
        # Nobody is left to end the command.
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT_SECONDS)

    def test_what_remains_of_a_step_is_taken_note_of(self):
        process, _, _ = self.begun("-N", "2", "--", "sh", "-c", f"for step in 1 2 3; do srun -N2 -n2 true; done; echo here; {FOREVER}")
        until = time.monotonic() + LIMIT_SECONDS

        def ended():
            return [name for name, parent in processes.running(has_ended=True).values() if parent == process.pid]

        while ended() and time.monotonic() < until:
            time.sleep(processes.POLL_SECONDS)
        self.assertEqual(ended(), [])
        process.terminate()
        process.communicate(timeout=LIMIT_SECONDS)

    def test_two_clusters_do_not_meet(self):
        # Each command first says its port, and goes on when both have done so.
        go = self.scratch / "go"
        script = f"scontrol show config | grep '^SlurmctldPort'; until [ -e {go} ]; do sleep 0.02; done; srun -N2 -n2 sh -c 'exit 5'"
        both = [self.begun("-N", "2", "--", "sh", "-c", script) for _ in range(2)]
        self.assertNotEqual(both[0][1], both[1][1])
        go.touch()
        for process, _, pids in both:
            _, err = process.communicate(timeout=LIMIT_SECONDS)
            self.assertEqual(process.returncode, 5, err)
            self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_everything_listens_at_the_loopback_address_alone(self):
        process, _, pids = self.begun("-N", "2", "--", "srun", "-n2", "sh", "-c", f"echo here; {FOREVER}")
        listening = addresses_of(pids)
        self.assertGreaterEqual(len(listening), 4)
        self.assertEqual({address for address, _ in listening}, {slurm.LOOPBACK})
        process.terminate()
        process.communicate(timeout=LIMIT_SECONDS)

    def test_a_name_without_an_address_is_no_obstacle(self):
        may = [sys.executable, "-c", f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({slurm.CLONE_NEWUTS}))"]
        if subprocess.run(may, check=False).returncode:
            self.skipTest("this process may not give another process its own name of the machine")

        def rename():
            ctypes.CDLL(None).unshare(slurm.CLONE_NEWUTS)
            socket.sethostname("nowhere.invalid")
            end_with_parent()

        code, out, err = self.ran("-N", "2", "--", "sh", "-c", "hostname; srun -N2 -n2 hostname", preexec_fn=rename)
        self.assertEqual((code, out.split()), (0, ["localhost"] * 3), err)

    def test_a_job_around_it_is_none_of_its_own(self):
        with mock.patch.dict(os.environ, {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "9", "PMI_RANK": "3"}):
            code, out, err = self.ran("-N", "1", "--", "sh", "-c", 'echo "$SLURM_JOB_ID$PMI_RANK"; srun -n1 sh -c \'echo "$SLURM_JOB_ID $SLURM_NTASKS"\'')
        self.assertEqual((code, out), (0, "\n1 1\n"), err)

    def test_a_start_that_fails_shows_the_logs(self):
        (self.scratch / "slurmd").write_text("#!/bin/sh\necho this node has no disk\nexit 3\n")
        (self.scratch / "slurmd").chmod(0o755)
        process = with_slurm("-N", "1", "--", "true", env={**os.environ, "PATH": f"{self.scratch}:{os.environ['PATH']}"})
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, 125)
        self.assertIn("with-slurm: Slurm did not start: node1 exited with code 3; the end of its logs:", err)
        self.assertIn("  node1.output: this node has no disk", err)


def addresses_of(pids):
    """The address and port of each TCP socket that one of the processes listens at."""
    mine = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    mine.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(number)))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in mine:
                address, port = words[1].split(":")
                octets = bytes.fromhex(address)
                whole = b"".join(octets[start : start + 4][::-1] for start in range(0, len(octets), 4))
                found.add((socket.inet_ntop(family, whole), int(port, 16)))
    return found


class Words(unittest.TestCase):
    def test_what_is_missing_is_told_with_what_installs_it(self):
        with mock.patch.object(slurm, "PATH", "/nowhere"), self.assertRaises(ServerError) as raised:
            slurm.programs()
        self.assertIn("'slurmctld'", str(raised.exception))
        self.assertIn("apt-get install --no-install-recommends slurm-wlm", str(raised.exception))

    def test_wrong_options_are_told(self):
        for words, expected in [
            (["-N", "0", "--", "true"], "'0' is not a whole number above 0"),
            (["-N", "65", "--", "true"], "'65' is above 64"),
            ([], "a COMMAND is missing"),
        ]:
            process = with_slurm(*words)
            _, err = process.communicate(timeout=LIMIT_SECONDS)
            self.assertEqual(process.returncode, 2)
            self.assertIn(expected, err)

    def test_a_user_without_a_name_is_told(self):
        with mock.patch.object(os, "getuid", return_value=4_000_000_000), self.assertRaisesRegex(ServerError, "user 4000000000 has none"):
            slurm.user()

    def test_who_may_not_rename_the_machine_is_told_what_to_add(self):
        libc = mock.Mock()
        libc.unshare.return_value = -1
        with (
            mock.patch.object(slurm.ctypes, "CDLL", return_value=libc),
            self.assertRaisesRegex(ServerError, r"add the line '127\.0\.0\.1 there' to /etc/hosts"),
        ):
            slurm.unshare_name("there")


if __name__ == "__main__":
    unittest.main()
