"""Tests of the model repositories that are written, and of the ports that are taken; `python3 -m unittest triton.tests` within scripts/ runs them."""

import re
import socket
import struct
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import repository, server
from .install import DEFAULT_RELEASE, RELEASES

OPTIONS = dict(instances=1, batch=4, idle_limit_ms=1000, parameters={"execute_delay_ms": 3})


def names(*arguments, **options):
    return [model.name for model in repository.models(*arguments, **options)]


def written(python=False, release=DEFAULT_RELEASE, dtypes=None):
    """The files of a repository, by their paths within it."""
    with tempfile.TemporaryDirectory() as folder:
        repository.write(Path(folder), python, release, dtypes=dtypes, **OPTIONS)
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


class Ports(unittest.TestCase):
    def test_nobody_else_gets_a_port_that_is_taken(self):
        some, others = server.Ports(100), server.Ports(100)
        self.assertEqual(len({*some.numbers, *others.numbers}), 200)
        with mock.patch.object(server, "PORTS", range(some.numbers[0], some.numbers[0] + 1)):
            with self.assertRaisesRegex(server.ServerError, "are free"):
                server.Ports(1)
            some.release()
            self.assertEqual(server.Ports(1).numbers, some.numbers[:1])
        others.release()

    def test_ports_that_somebody_listens_at_are_left_out(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with mock.patch.object(server, "PORTS", range(port, port + 1)), self.assertRaises(server.ServerError):
                server.Ports(1)


class Models(unittest.TestCase):
    def test_without_data_types_they_are_those_of_int32_and_the_plainest_of_the_others(self):
        others = [name for name in names(False, DEFAULT_RELEASE) if not name.endswith("_int32")]
        self.assertEqual(others, [f"custom_sequence_{dtype}" for dtype in repository.DTYPES if dtype != "int32"])
        self.assertEqual(names(True, DEFAULT_RELEASE), ["custom_sequence_int32", "oldest_sequence_int32", "custom_dyna_sequence_int32"])

    def test_each_data_type_has_every_family(self):
        of_int32 = names(False, DEFAULT_RELEASE, dtypes=["int32"])
        for dtype in repository.DTYPES:
            expected = [name.replace("_int32", f"_{dtype}") for name in of_int32]
            if dtype == "object":
                expected.remove("implicit_initial_file_sequence_object")
            self.assertEqual(names(False, DEFAULT_RELEASE, dtypes=[dtype]), expected)

    def test_no_name_is_there_twice_and_older_releases_have_fewer(self):
        every = names(False, DEFAULT_RELEASE, dtypes=list(repository.DTYPES))
        self.assertEqual(len(every), len(set(every)))
        self.assertNotIn("iterative_sequence_int32", names(False, min(RELEASES)))

    def test_the_python_backend_has_none_whose_state_the_server_keeps(self):
        served = names(True, DEFAULT_RELEASE, dtypes=["object"])
        self.assertIn("stateless_dyna_sequence_object", served)
        self.assertFalse([name for name in served if re.match("implicit|decoupled|iterative|echo", name)])


class Files(unittest.TestCase):
    def test_an_initial_state_of_a_file_has_the_bytes_of_its_type(self):
        for dtype, packed in [("int32", "<i"), ("uint64", "<Q"), ("float32", "<f"), ("float64", "<d"), ("bool", "<i")]:
            files = written(dtypes=[dtype])
            content = files[f"implicit_initial_file_sequence_{dtype}/initial_state/thousand"]
            self.assertEqual(content, struct.pack(packed, 1000), dtype)
            config = files[f"implicit_initial_file_sequence_{dtype}/config.pbtxt"].decode()
            self.assertIn('data_file: "thousand"', config)
            self.assertIn('parameters { key: "sequence_stress_initial_state" value { string_value: "1000" } }', config)

    def test_tensors_controls_and_states_are_of_the_type(self):
        config = written(dtypes=["object"])["implicit_sequence_object/config.pbtxt"].decode()
        self.assertEqual(config.count("TYPE_STRING"), 3, config)
        config = written(dtypes=["bool"])["oldest_sequence_bool/config.pbtxt"].decode()
        self.assertEqual((config.count("bool_false_true: [ false, true ]"), config.count("int32_false_true")), (3, 0), config)
        self.assertEqual(config.count("TYPE_INT32"), 2, config)

    def test_a_model_of_the_python_backend_has_its_program(self):
        files = written(python=True, dtypes=["uint32"])
        self.assertEqual(files["custom_initial_sequence_uint32/1/model.py"], repository.ACCUMULATOR.read_bytes())

    def test_a_folder_that_is_not_empty_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine").touch()
            with self.assertRaisesRegex(repository.RepositoryError, "is not an empty folder"):
                repository.write_new(Path(folder), False, DEFAULT_RELEASE, **OPTIONS)


if __name__ == "__main__":
    unittest.main()
