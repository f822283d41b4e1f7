"""A real sshd in a layer for each of several hosts, which have shared memory of their own."""

from __future__ import annotations

from functools import partial

from evaluation.lab.layer import Layer

PACKAGES = ("openssh-server", "openssh-client")
HOSTS = ("desk1", "desk2")
UNREACHABLE = "desk3"
_SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/sshd-{port}.pid
StrictModes no
PermitUserEnvironment no
AcceptEnv PYTHONPATH OMP_NUM_THREADS
PermitRootLogin yes
"""
_CLIENT = """
Host {host}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known
  SendEnv PYTHONPATH OMP_NUM_THREADS
"""


def flags(there: Layer) -> tuple[str, ...]:
    """With which ``ssh`` reaches the hosts."""
    return ("-F", str(there.folder / "ssh_config"))


def serve(there: Layer, port: int) -> None:
    """Hosts that answer, at ports from that one on; they end with the layer."""
    for name in ("host", "user"):
        there.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(there.folder / name))
    there.run("mkdir", "-p", "/run/sshd")
    clients = [_CLIENT.format(host=UNREACHABLE, port=1, folder=there.folder)]
    for number, host in enumerate(HOSTS, port):
        config = there.folder / f"sshd_config-{host}"
        config.write_text(_SSHD.format(port=number, folder=there.folder))
        clients.append(_CLIENT.format(host=host, port=number, folder=there.folder))
        there.start_node(f"/usr/sbin/sshd -D -f {config}")
    (there.folder / "ssh_config").write_text("".join(clients))
    there.variables["ARTOS_CLUSTERS"] = str(there.folder / "clusters")
    for host in HOSTS:
        there.until(partial(_answers, there, host))


def _answers(there: Layer, host: str) -> bool:
    return there.tried("ssh", *flags(there), host, "true").returncode == 0
