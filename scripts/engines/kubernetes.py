"""Gets what knows the schemas of Kubernetes' API into the ignored folder `.tools/`, once."""

import downloads
from downloads import PYTHON_VERSION
from triton.install import ROOT, once

HOME = ROOT / ".tools"
# The set of wheels.txt, and what pip needs for it.
SET = "kubernetes"
SPECIFIERS = ["kubernetes-validate==1.37.0"]


def validator():
    """The folder of the Python package kubernetes_validate, with all that it needs."""
    folder = f"{SPECIFIERS[0].replace('==', '-')}-python-{PYTHON_VERSION}"
    return once(folder, lambda path: downloads.install(SET, SPECIFIERS, path, HOME), HOME)
