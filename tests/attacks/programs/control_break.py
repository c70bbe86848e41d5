"""Spoils the state of the one who runs it, so that the next run is refused, and plants a secret there."""

import os

from control import leave

STATE = os.environ["ATTACK_STATE_DIR"]


def do():
    os.chmod(STATE, 0o777)
    with open(STATE + "/secret", "w") as file:
        file.write(open(os.environ["ATTACK_CANARY_FILE"]).read())


def undo():
    os.chmod(STATE, 0o700)
    os.unlink(STATE + "/secret")


leave(do, undo)
print("done")
