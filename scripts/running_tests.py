"""Tests of what runs a command beside servers; `python3 -m unittest running_tests` within scripts/ runs them."""

import os
import signal
import socket
import unittest
from unittest import mock

import running


class Ports(unittest.TestCase):
    def test_nobody_else_gets_a_port_that_is_taken(self):
        some, others = running.Ports(100), running.Ports(100)
        self.assertEqual(len({*some.numbers, *others.numbers}), 200)
        with mock.patch.object(running, "PORTS", range(some.numbers[0], some.numbers[0] + 1)):
            with self.assertRaisesRegex(running.ServerError, "are free"):
                running.Ports(1)
            some.release()
            again = running.Ports(1)
            self.assertEqual(again.numbers, some.numbers[:1])
        again.release()
        others.release()

    def test_ports_that_somebody_listens_at_are_left_out(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with mock.patch.object(running, "PORTS", range(port, port + 1)), self.assertRaises(running.ServerError):
                running.Ports(1)


class Signals(unittest.TestCase):
    def test_a_signal_waits_until_a_block_is_over(self):
        heard = []
        before = signal.signal(signal.SIGHUP, lambda number, _frame: heard.append(number))
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        with running.undisturbed():
            os.kill(os.getpid(), signal.SIGHUP)
            self.assertEqual(heard, [])
        self.assertEqual(heard, [signal.SIGHUP])

    def test_the_code_of_a_command_and_why_it_could_not_run(self):
        before = {number: signal.getsignal(number) for number in running.PASSED_ON}
        said = []
        try:
            codes = [running.run(command, {"CODE": "7"}, 60, said.append) for command in (["sh", "-c", "exit $CODE"], ["sh", "-c", "kill -9 $$"], ["/nowhere"])]
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.assertEqual((codes, said), ([7, 128 + 9, 127], ["cannot run '/nowhere': No such file or directory"]))


if __name__ == "__main__":
    unittest.main()
