"""Tests of the model repositories that are written; `python3 -m unittest triton.tests` within scripts/ runs them."""

import tempfile
import unittest
from pathlib import Path

from . import repository
from .install import DEFAULT_RELEASE, RELEASES

OPTIONS = dict(instances=1, batch=4, idle_limit_ms=1000, parameters={"execute_delay_ms": 3})


def written(python=False, release=DEFAULT_RELEASE, dtypes=None):
    """The files of a repository, by their paths within it."""
    with tempfile.TemporaryDirectory() as folder:
        count = repository.write(Path(folder), python, release, dtypes=dtypes, **OPTIONS)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        assert count == len(list(Path(folder).iterdir()))
        return files


class Models(unittest.TestCase):
    def test_without_data_types_they_are_those_of_int32_and_the_plainest_of_the_others(self):
        names = repository.names(False, DEFAULT_RELEASE)
        # The steps of an ensemble have its name, and a number behind it.
        others = [name for name in names if "_int32" not in name]
        self.assertEqual(others, sorted(f"custom_sequence_{dtype}" for dtype in repository.dtypes() if dtype != "int32"))
        self.assertEqual(len(names) - len(others), 35, names)
        three = ["custom_dyna_sequence_int32", "custom_sequence_int32", "oldest_sequence_int32"]
        self.assertEqual(repository.names(True, DEFAULT_RELEASE), three)

    def test_older_releases_have_fewer(self):
        self.assertIn("iterative_sequence_int32", repository.names(False, DEFAULT_RELEASE))
        self.assertNotIn("iterative_sequence_int32", repository.names(False, min(RELEASES)))

    def test_what_is_asked_for_is_in_the_configurations(self):
        files = written(dtypes=["int32", "float32"])
        config = files["custom_sequence_float32/config.pbtxt"].decode()
        for expected in [
            "max_batch_size: 4",
            "max_sequence_idle_microseconds: 1000000",
            '"execute_delay_ms" value { string_value: "3" }',
            "data_type: TYPE_FP32",
        ]:
            self.assertIn(expected, config)
        # Two of the models of INT32 have files with initial states besides: one, and three.
        self.assertEqual(len(written()), 35 + 4 + len(repository.dtypes()) - 1)

    def test_a_model_of_the_python_backend_has_its_program(self):
        files = written(python=True, dtypes=["uint32"])
        self.assertEqual(files["custom_initial_sequence_uint32/1/model.py"], repository.ACCUMULATOR.read_bytes())

    def test_a_folder_that_is_not_empty_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine").touch()
            with self.assertRaisesRegex(repository.RepositoryError, "exists and is not empty"):
                repository.write(Path(folder), False, DEFAULT_RELEASE, **OPTIONS)
            self.assertEqual([path.name for path in Path(folder).iterdir()], ["mine"])


if __name__ == "__main__":
    unittest.main()
