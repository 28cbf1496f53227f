"""Prints the objects of a YAML file as JSON, and what Kubernetes would refuse of them: python3 manifest.py VERSION < FILE

It runs with the folder of kubernetes_validate in PYTHONPATH. `problems` has a line for each object that the API of VERSION does not take,
such as one with a field that the API does not have.
"""

import json
import sys

import kubernetes_validate
import yaml


def problem(thing, version):
    """Why the API does not take an object; None where it does."""
    try:
        kubernetes_validate.validate(thing, version, strict=True)
    except kubernetes_validate.ValidationError as refused:
        return f"{thing['kind']}: {'/'.join(map(str, refused.path))}: {refused.message}"
    return None


def main():
    objects = list(yaml.safe_load_all(sys.stdin))
    problems = [problem(thing, sys.argv[1]) for thing in objects]
    print(json.dumps({"objects": objects, "problems": [told for told in problems if told]}))


if __name__ == "__main__":
    main()
