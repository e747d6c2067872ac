# SPDX-License-Identifier: Apache-2.0
"""Control groups of a test's own, of version 1, where this machine has them and lets us make one."""
import contextlib
import os
import tempfile

import interop


def _folder_of_ours(controller):
    """Where the group of this process lies in the tree of `controller`; None where there is no such tree."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            place, _, what = line.partition(" - ")
            kind, _, options = (what.split() + ["", "", ""])[:3]
            if kind == "cgroup" and controller in options.split(","):
                top, point = place.split()[3:5]
                with open("/proc/self/cgroup", encoding="utf-8") as groups:
                    own = next(line.rstrip("\n").split(":", 2)[2] for line in groups if controller in line.split(":")[1].split(","))
                return point + own if top == "/" else point
    return None


class Group:
    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(folder)

    def write(self, file, text):
        with open(os.path.join(self.folder, file), "w", encoding="ascii") as target:
            target.write(str(text))

    def entering(self, command):
        """`command`, to be run in this group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.folder, *command]


@contextlib.contextmanager
def control_group(controller, **files):
    """A group below ours with these texts in its files ("limit_in_bytes" of "memory"); ends the test as skipped where there is none."""
    ours = _folder_of_ours(controller)
    try:
        folder = tempfile.mkdtemp(prefix="muster-test-", dir=ours or "/no control groups of version 1")
    except OSError as error:
        interop.skip(f"no control group of version 1 can be made for '{controller}': {error.strerror}")
    try:
        group = Group(folder)
        for name, text in files.items():
            group.write(f"{controller}.{name}", text)
        yield group
    finally:
        os.rmdir(folder)
