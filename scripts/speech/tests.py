"""Tests of the speech-like sound, the files that are written of it, and the judge; `python3 -m unittest speech.tests` within scripts/ runs them."""

import contextlib
import io
import itertools
import json
import math
import random
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from triton import hosting, hosting_tests
from triton.install import InstallError
from verifying import install as runtimes

from . import audio, graphs, judge, repository, streams, wheel

PAUSE = audio.ROOM_NOISE / math.sqrt(3)


def loudness(samples):
    """The root mean square."""
    return math.sqrt(sum(sample * sample for sample in samples) / len(samples))


class Sound(unittest.TestCase):
    def test_a_seed_and_a_number_decide(self):
        one = audio.stream(1, 5, 2)
        self.assertEqual(audio.stream(1, 5, 2), one)
        self.assertNotEqual(audio.stream(1, 6, 2), one)
        self.assertNotEqual(audio.stream(2, 5, 2), one)

    def test_more_frames_leave_those_before_as_they_are(self):
        self.assertEqual(audio.stream(1, 5, 20)[:3], audio.stream(1, 5, 3))
        self.assertEqual([len(frame) for frame in audio.stream(1, 5, 3)], [512, 512, 512])

    def test_samples_are_those_of_16_bits(self):
        samples = list(itertools.chain(*audio.stream(1, 0, 30)))
        self.assertTrue(all(-1 <= sample < 1 and (sample * 32768).is_integer() for sample in samples))
        self.assertEqual([audio.recorded(sample) for sample in (-3.0, 3.0, 1 / 32768)], [-1.0, 1 - 1 / 32768, 1 / 32768])

    def test_a_stream_begins_with_sound_and_has_pauses(self):
        for number in range(20):
            self.assertGreater(loudness(audio.stream(1, number, 1)[0]), 2 * PAUSE, number)
        quiet = [frame for number in range(5) for frame in audio.stream(1, number, 40) if loudness(frame) < 1.1 * PAUSE]
        self.assertGreater(len(quiet), 10)

    def test_a_voice_has_its_pitch(self):
        source = audio.voiced(random.Random(3), {"pitch": 150, "size": 1.0})
        samples = [next(source) for _ in range(3000)]
        lags = range(audio.RATE // 400, audio.RATE // 60)
        period = max(lags, key=lambda lag: sum(one * other for one, other in zip(samples, samples[lag:], strict=False)))
        self.assertTrue(0.8 * 150 < audio.RATE / period < 1.25 * 150, audio.RATE / period)

    def test_a_formant_lets_its_frequency_through(self):
        def passed(frequency):
            resonator = audio.Resonator(1000, 100)
            tone = [math.sin(2 * math.pi * frequency * place / audio.RATE) for place in range(4000)]
            return loudness([resonator(sample) for sample in tone][2000:]) / loudness(tone[2000:])

        self.assertAlmostEqual(passed(1000), 1, delta=0.02)
        self.assertLess(passed(300), 0.2)
        self.assertLess(passed(3000), 0.2)


class Files(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "streams.json"

    def test_a_step_is_a_frame_behind_the_end_of_the_frame_before(self):
        frames = audio.stream(1, 0, 3)
        first, second, third = streams.steps(frames)
        self.assertEqual((first[:64], first[64:]), ([0.0] * 64, frames[0]))
        self.assertEqual((second[:64], third[:64]), (frames[0][-64:], frames[1][-64:]))

    def test_what_is_written_is_read_exactly(self):
        streams.write(self.path, streams.document([4, 2], 3, 1))
        written = json.loads(self.path.read_text())["data"]
        self.assertEqual([len(stream) for stream in written], [3, 3])
        self.assertEqual((written[0][0]["sr"], written[0][0]["input"]["shape"]), ([16000], [576]))
        self.assertEqual([[list(step) for step in stream] for stream in streams.read(self.path)], [list(streams.steps(audio.stream(1, n, 3))) for n in (4, 2)])
        self.assertEqual([path.name for path in self.path.parent.iterdir()], ["streams.json"])

    def test_numbers_are_read_in_each_of_their_forms(self):
        samples = [0.5] * 576
        forms = [samples, {"content": samples}, {"b64": streams.encoded(samples)}, {"content": {"b64": streams.encoded(samples)}}]
        streams.write(self.path, {"data": [[{"input": form, "sr": [16000]} for form in forms]]})
        self.assertEqual([list(step) for step in streams.read(self.path)[0]], [samples] * 4)

    def test_what_is_no_file_of_streams_is_rejected_in_one_line(self):
        for content, words in [
            ({}, "KeyError"),
            ({"data": []}, "a list is empty"),
            ({"data": [[]]}, "a list is empty"),
            ({"data": [[{"input": [0.5] * 576}]]}, "KeyError: 'sr'"),
            ({"data": [[{"input": [0.5] * 576, "sr": [8000]}]]}, r"'sr' is \[8000\]"),
            ({"data": [[{"input": [0.5] * 575, "sr": [16000]}]]}, "a step has 575 samples, not 576"),
            ({"data": [[{"input": {"b64": "?"}, "sr": [16000]}]]}, "Error"),
        ]:
            streams.write(self.path, content)
            with self.assertRaisesRegex(streams.StreamsError, f"^'.*' has no streams .*{words}"):
                streams.read(self.path)
        with self.assertRaisesRegex(streams.StreamsError, "cannot read the streams in '.*none': No such file"):
            streams.read(self.path.parent / "none")
        with self.assertRaisesRegex(streams.StreamsError, "cannot write the streams into '.*x': Not a directory"):
            streams.write(self.path / "none/x", {})

    def test_streams_with_nearly_the_same_outputs_are_left_out(self):
        outputs = iter([[0.1, 0.1], [0.1001, 0.5], [0.5, 0.1001], [0.5, 0.5], [0.9, 0.9]])
        self.assertEqual(streams.chosen(3, 1, lambda _: next(outputs)), [0, 3, 4])
        with mock.patch.object(streams, "TRIES", 2), self.assertRaisesRegex(streams.StreamsError, "only 1 of 4 streams with the seed 1 differ clearly, not 2"):
            streams.chosen(2, 1, lambda _: [0.5])


class Models(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder, self.files = Path(scratch.name) / "models", Path(scratch.name) / "files"
        self.files.mkdir()
        for name in (wheel.STEP, wheel.LICENSE):
            (self.files / name).write_text(name)

    def test_each_form_can_be_hosted(self):
        repository.write(self.folder, self.files)
        with mock.patch.object(hosting, "Runtime", hosting_tests.FakeRuntime):
            served = hosting.Hosting(self.folder)
            served.write(self.folder.parent / "served")
        self.assertEqual(list(served.remarks()), [])
        for name, batch, dims in [("silero_vad", 8, [2, 128]), ("silero_vad_oldest", 8, [2, 128]), ("silero_vad_nobatch", 0, [2, 1, 128])]:
            config = served.messages.parsed(self.folder.parent / "served" / name / "config.pbtxt")
            (state,) = json.loads(config.parameters[hosting.PARAMETER].string_value)["states"]
            self.assertEqual((config.name, config.max_batch_size, state["dims"], state["initial"]), (name, batch, dims, "zero"))
            self.assertEqual(config.sequence_batching.HasField("oldest"), name == "silero_vad_oldest")
            self.assertEqual(config.sequence_batching.max_sequence_idle_microseconds, 5_000_000)
            self.assertEqual(judge.slots(config), {"silero_vad": 8, "silero_vad_oldest": 32, "silero_vad_nobatch": 4}[name])
            constants = config.parameters["sequence_stress_constants"].string_value
            self.assertEqual(constants, '{"sr": 16000}' if batch else "")
            self.assertEqual((self.folder / name / "1/model.onnx").read_text(), wheel.STEP)
            self.assertEqual((self.folder / name / "LICENSE").read_text(), wheel.LICENSE)

    def test_a_folder_with_something_in_it_is_left_alone(self):
        self.folder.mkdir()
        (self.folder / "mine").touch()
        with self.assertRaisesRegex(repository.RepositoryError, "exists and is not empty"):
            repository.write(self.folder, self.files)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mine"])
        with self.assertRaisesRegex(repository.RepositoryError, "cannot write the models into '.*mine': Not a directory"):
            repository.write(self.folder / "mine", self.files)


class Wheel(unittest.TestCase):
    def test_the_files_are_taken_out_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for member in [*wheel.MEMBERS.values(), "silero_vad/model.py"]:
                    archive.writestr(member, member)
            into = Path(folder) / "files"
            into.mkdir()
            wheel.unpack(path, into)
            self.assertEqual({file.name: file.read_text() for file in into.iterdir()}, wheel.MEMBERS)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x", "x")
            with self.assertRaisesRegex(InstallError, "'x.whl' has no silero_vad/data/silero_vad.onnx and 2 more"):
                wheel.unpack(path, into)

    def test_a_python_without_a_pin_is_told(self):
        with mock.patch.object(wheel.downloads, "pinned", lambda _: []), self.assertRaisesRegex(InstallError, "pins no silero-vad==6"):
            wheel.fetch(Path("/nowhere"))


class Judging(unittest.TestCase):
    def test_streams_are_compared_step_by_step(self):
        self.assertEqual(judge.compared([[0.5, 0.25], [1.0]], [[0.5, 0.5], [0.875]]), (0.25, 1, 3))
        with self.assertRaises(ValueError):
            judge.compared([[0.5, 0.25]], [[0.5]])

    def test_a_line_says_what_is_wrong(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            report = judge.Report([[0.5, 0.25]], 1e-3)
            report.line("near", [[0.5, 0.2505]])
            self.assertTrue(report.is_right)
            report.line("far", [[0.5, 0.252]])
            report.line("equal", [[0.5, 0.25]])
        self.assertFalse(report.is_right)
        lines = [" ".join(line.split()) for line in printed.getvalue().splitlines()[1:]]
        self.assertEqual(lines, ["near 0.0005 1 of 2", "far 0.002 1 of 2 WRONG: beyond 0.001", "equal 0 2 of 2"])

    def test_the_two_nearest_are_found_at_each_step(self):
        self.assertEqual(list(judge.nearest([[0.0, 1.0], [0.75, 0.5], [0.5]], 3)), [0.25, 0.5, None])

    def test_a_server_that_does_not_answer_is_told_in_one_line(self):
        class Problem(Exception):
            def message(self):
                return "gone"

        server = object.__new__(judge.Server)
        server.endpoint, server.problem, server.client = "HOST:1", Problem, mock.Mock()
        server.client.get_model_config.side_effect = server.client.get_inference_statistics.side_effect = Problem
        for ask in (server.config, server.counts):
            with self.assertRaisesRegex(judge.JudgeError, "^cannot ask the server at HOST:1 about m: gone: is it a gRPC endpoint\\?$"):
                ask("m")
        server.client.get_model_config.assert_called_once_with("m", client_timeout=judge.RESPONSE_SECONDS)

    def test_only_streams_of_one_length_go_together(self):
        self.assertEqual(list(judge.groups(["ab", "c", "de", "fg", "h"], 2)), [[0, 2], [3], [1, 4]])


class Real(unittest.TestCase):
    """The files of the wheel; scripts/silero fetches them, and the gate does."""

    @classmethod
    def setUpClass(cls):
        if not (wheel.is_here() and (runtimes.HOME / runtimes.folder_name("onnxruntime", False)).is_dir()):
            why = f"{wheel.SPECIFIERS[0]} or onnxruntime is not in '{runtimes.HOME}': run scripts/silero DIR --inputs FILE"
            print(f"speech.tests.Real is skipped: {why}", file=sys.stderr)
            raise unittest.SkipTest(why)
        with mock.patch.object(sys, "path", list(sys.path)):
            cls.own = graphs.Graphs(wheel.files())
        cls.every = cls.own.numpy.stack([cls.own.array(list(streams.steps(audio.stream(1, number, 8)))) for number in range(4)])
        cls.expected = [cls.own.at_once(samples) for samples in cls.every]

    def test_steps_alone_and_together_are_what_one_call_computes(self):
        largest, _, count = judge.compared(self.own.by_steps(self.every), self.expected)
        self.assertEqual((largest < 1e-5, count), (True, 32))
        largest, _, _ = judge.compared([self.own.by_steps(samples[None])[0] for samples in self.every], self.expected)
        self.assertLess(largest, 1e-5)

    def test_a_state_that_is_lost_shows(self):
        second = self.own.by_steps(self.every[:, 4:])
        largest, _, _ = judge.compared(second, [probabilities[4:] for probabilities in self.expected])
        self.assertGreater(largest, 0.01)

    def test_the_host_finds_the_rows_of_the_state(self):
        shapes = {tensor.name: tensor.shape for tensor in self.own.step.get_inputs()}
        self.assertEqual(hosting_tests.host_module().batch_axis(shapes["state"], [2, 128]), 1)

    def test_streams_that_are_chosen_are_apart(self):
        numbers = streams.chosen(6, 1, lambda steps: self.own.at_once(self.own.array(steps)).tolist())
        outputs = [self.own.at_once(self.own.array(list(streams.steps(audio.stream(1, number, 4))))) for number in numbers]
        self.assertEqual(len(outputs), 6)
        self.assertGreaterEqual(min(judge.nearest(outputs, 4)), streams.SPREAD / 6)


if __name__ == "__main__":
    unittest.main()
