"""Tests of examples/kubernetes: the API takes it, and its parts fit; `python3 -m unittest engines.kubernetes_tests` within scripts/ runs them.

Nothing here is a cluster. The schemas are those of the package kubernetes-validate.
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from downloads import InstallError
from triton.install import ROOT

from . import kubernetes

MANIFEST = Path(__file__).resolve().parent / "manifest.py"
FOLDER = ROOT / "examples/kubernetes"
OLDEST, NEWEST = 28, 37
LIMIT_SECONDS = 300


class Manifest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.validator = kubernetes.validator()
        except InstallError as problem:
            print(f"skipping the tests of examples/kubernetes: {problem}", file=sys.stderr, flush=True)
            raise unittest.SkipTest(str(problem)) from None
        cls.text = (FOLDER / "sequence-stress.yaml").read_text()

    def read(self, text, version=NEWEST):
        """The objects of a manifest, and what the API refuses of them."""
        environment = {**os.environ, "PYTHONPATH": str(self.validator)}
        command = [sys.executable, str(MANIFEST), f"1.{version}"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        return told["objects"], told["problems"]

    def test_the_api_takes_it(self):
        for version in range(OLDEST, NEWEST + 1):
            with self.subTest(version=version):
                objects, problems = self.read(self.text, version)
                self.assertEqual(([thing["kind"] for thing in objects], problems), (["Service", "PersistentVolumeClaim", "Job"], []))
        self.assertIn(f"from 1.{OLDEST} to 1.{NEWEST}", " ".join((FOLDER / "README.md").read_text().split()))

    def test_the_api_refuses_what_is_misspelled_or_of_another_type(self):
        for right, wrong, kind in [
            ("completionMode:", "completionsMode:", "Job"),
            ("restartPolicy:", "restartsPolicy:", "Job"),
            ("publishNotReadyAddresses:", "publishNotReadyAddress:", "Service"),
            ("backoffLimit: 0", "backoffLimit: none", "Job"),
            ("accessModes:", "accessMode:", "PersistentVolumeClaim"),
        ]:
            with self.subTest(wrong):
                changed = self.text.replace(right, wrong)
                self.assertNotEqual(changed, self.text)
                (problem,) = self.read(changed)[1]
                self.assertTrue(problem.startswith(f"{kind}: "), problem)

    def test_its_parts_fit(self):
        (service, claim, job), _ = self.read(self.text)
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        variables = {each["name"]: each["value"] for each in container["env"]}
        count = job["spec"]["completions"]
        self.assertEqual((job["spec"]["completionMode"], job["spec"]["parallelism"]), ("Indexed", count))
        self.assertEqual(variables["SEQUENCE_STRESS_RANKS"], str(count))
        # The pod of index 0 has this name, below the Service of its subdomain.
        name, subdomain, port = re.fullmatch(r"([\w-]+)-0\.([\w-]+):(\d+)", variables["SEQUENCE_STRESS_RENDEZVOUS"]).groups()
        self.assertEqual((name, subdomain, pod["subdomain"]), (job["metadata"]["name"], service["metadata"]["name"], service["metadata"]["name"]))
        self.assertEqual(
            ([int(port)], [int(port)]), ([each["port"] for each in service["spec"]["ports"]], [each["containerPort"] for each in container["ports"]])
        )
        self.assertEqual((service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]), ("None", True))
        labels = job["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(service["spec"]["selector"].items() - labels.items(), set())
        # No rank is started a second time.
        self.assertEqual((job["spec"]["backoffLimit"], pod["restartPolicy"]), (0, "Never"))
        (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
        self.assertEqual((mount["name"], volume["persistentVolumeClaim"]["claimName"]), (volume["name"], claim["metadata"]["name"]))
        self.assertEqual(container["args"][container["args"].index("--results") + 1], mount["mountPath"])

    def test_the_readme_names_what_is_to_be_changed(self):
        (_, _, job), _ = self.read(self.text)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        readme = (FOLDER / "README.md").read_text()
        for value in (container["image"], container["args"][0], "YOUR_MODEL"):
            self.assertIn(f"`{value}`", readme)
        self.assertIn("never run on a cluster", " ".join(readme.replace("*", "").split()))


if __name__ == "__main__":
    unittest.main()
