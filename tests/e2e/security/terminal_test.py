# SPDX-License-Identifier: Apache-2.0
"""What workers of several hosts print reaches a terminal without what it would act on; files get every byte. The test is the
terminal. Both "hosts" are this machine, through a stand-in for ssh."""
import glob
import os
import re
import subprocess
import sys
import tempfile

from interop import MUSTER, ROOT, check, run_on_terminal

FAKE_SSH = os.path.join(ROOT, "tests", "e2e", "ssh_start", "fake_ssh.sh")
LIMIT_S = 60
# In pieces, so that sequences come cut; and one that never ends.
WORKER = r"""
printf '\033[32mgreen %s\033[0m \033]0;ti' $RANK
printf 'tle\007 \033[?25l\033[6n \033[A\033[K caf\303\251 \302\233 \377 \016 done %s\n' $RANK
printf 'open \033[1;1' >&2
"""
PASSES = ("green {}".join(("\x1b[32m", "\x1b[0m")), "\x1b[A\x1b[K", "caf\u00e9", "done {}\r\n")
SHOWN = ("\\x1b]0;title\\x07 \x1b[?25l\\x1b[6n ", r"\x9b \xff \x0e done {}", r"open \x1b[1;1")
RAW = b"\x1b]0;title\x07 \x1b[?25l\x1b[6n \x1b[A\x1b[K caf\xc3\xa9 \xc2\x9b \xff \x0e done %d\n"


def on_terminal(*flags):
    """What a terminal gets of a job on two hosts."""
    with tempfile.TemporaryDirectory() as state:
        code, shown = run_on_terminal([MUSTER, "run", "-H", "h1,h2", "--ssh-command", FAKE_SSH, *flags, "--no-python", "sh", "-c", WORKER],
                                      on=("stdout", "stderr"), timeout=LIMIT_S, stdin=subprocess.DEVNULL, extra={"FAKE_SSH_STATE": state})
    check(code == 0, f"exit code {code}", repr(shown))
    return shown


def main():
    with tempfile.TemporaryDirectory() as logs:
        shown = on_terminal("--tee", "3", "--log-dir", logs)
        text = shown.decode()
        for rank in (0, 1):
            for piece in (*PASSES, *SHOWN):
                check(piece.format(rank) in text, f"{piece!r} is missing", repr(text))
            check(text.count("\x1b[?25h") == 2, "the cursor stays hidden", repr(text))
            check(re.search(rf"\[{rank}\]: \x1b\[32mgreen {rank}", text), "a line has no prefix", repr(text))
        others = re.findall("\x1b(?!\\[(?:32m|0m|A|K|\\?25[lh]))|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]", text)
        check(not others, f"{others} came through", repr(text))
        files = glob.glob(f"{logs}/**/stdout.log", recursive=True)
        check(len(files) == 2, "not two log files", repr(files))
        for path in files:
            with open(path, "rb") as file:
                check(re.search(re.escape(RAW).replace(b"%d", b"[01]"), file.read()), "a log file has lost bytes", path)
    raw = on_terminal("--raw-output")
    for rank in (0, 1):
        check(RAW.replace(b"\n", b"\r\n") % rank in raw, "--raw-output changed something", repr(raw))
    print("a terminal got:", shown)


if __name__ == "__main__":
    sys.exit(main())
