"""``artos ... | head``: that somebody has read enough is no error."""

from helpers import PATIENCE, python


def test_readers_may_hang_up() -> None:
    with python("-P", "-m", "deploy.cli", "explain", "ppo") as artos:
        assert artos.stdout is not None
        artos.stdout.close()
        assert artos.wait(PATIENCE) == 0
