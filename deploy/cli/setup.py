"""``artos setup``: install CRIU on this machine, or run a daemon on it now and after every boot."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from deploy.cli.parser import Parser

_SCRIPTS = Path(__file__).parents[1]
_HELP = """\
artos setup criu                                   installs CRIU, pycriu, numactl for checkpoints
artos setup head tcp://IP:PORT KEYS [RUNS]         a systemd service: the head of a cluster
artos setup worker tcp://IP:PORT KEYS [FLAGS...]   a systemd service: a worker, with its FLAGS
"""


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos setup``."""
    parser.epilog, parser.formatter_class = _HELP, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "what",
        choices=("criu", "head", "worker"),
        help="criu: what checkpointing needs; head, worker: a service of this machine, as root",
    )
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="of a head or a worker: address, keys, and flags of artos head or artos worker",
    )
    parser.set_defaults(command=set_up)


def set_up(options: argparse.Namespace) -> int:
    """``artos setup``: run the script; its exit status is the command's."""
    if options.what == "criu":
        command = ["bash", f"{_SCRIPTS}/setup/criu.sh", "--again"]
    else:
        command = [
            "sh",
            f"{_SCRIPTS}/launchers/systemd/install.sh",
            options.what,
            *options.arguments,
        ]
    artos = Path(sysconfig.get_path("scripts")) / "artos"
    packages = sysconfig.get_path("purelib")
    # Tells the scripts about this installation.
    own = {"ARTOS": str(artos), "ARTOS_PYTHON": sys.executable, "ARTOS_PACKAGES": packages}
    return subprocess.run(command, env={**os.environ, **own}, check=False).returncode
