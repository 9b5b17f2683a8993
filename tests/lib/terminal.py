# SPDX-License-Identifier: LGPL-3.0-or-later
"""A terminal for a command, and what a person would see on it.

    with Terminal(columns=40, lines=10) as terminal:
        running = self.dat_background("status", "--watch", **terminal.streams)
        eventually(lambda: "demo" in terminal.text(), "it is shown")
        terminal.type("q")

It knows the escape sequences that flux-dat uses, and no others: one that it does not know
is a failure, and so is a line that the terminal would have wrapped.
"""

import fcntl
import os
import re
import select
import struct
import termios
import unicodedata

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


def width(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Terminal:
    def __init__(self, columns=80, lines=24):
        self.master, self.slave = os.openpty()
        # A pty's slave belongs to who opened it, and the command may be another user.
        os.chmod(os.ttyname(self.slave), 0o666)
        self.resize(columns, lines)
        self.bytes = b""
        self.before = termios.tcgetattr(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()
        if self.slave is not None:
            os.close(self.slave)

    @property
    def streams(self):
        """Options of Popen: it is the command's only terminal, and its controlling one."""
        return {
            "stdin": self.slave,
            "stdout": self.slave,
            "stderr": self.slave,
            "start_new_session": True,
            "preexec_fn": self.take_control,
        }

    def take_control(self):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)

    def hang_up(self):
        """The terminal vanishes, as when a window is closed."""
        if self.master is not None:
            os.close(self.master)
            self.master = None
        return self

    def type(self, keys):
        os.write(self.master, keys.encode())

    def is_restored(self):
        """Also for the shell, which has the same open file."""
        flags = fcntl.fcntl(self.slave, fcntl.F_GETFL)
        return termios.tcgetattr(self.slave) == self.before and not flags & os.O_NONBLOCK

    def raw(self):
        """All that was written so far."""
        while select.select([self.master], [], [], 0)[0]:
            self.bytes += os.read(self.master, 1 << 16)
        return self.bytes.decode(errors="replace")

    def text(self):
        return "\n".join(self.screen())

    def screen(self):
        """The lines that are seen now: of the alternate screen where that is on, else all
        that went by. The last part may be half of a sequence, and is then left out."""
        screens = {False: [""], True: [""]}
        alternate, row, column, wraps = False, 0, 0, True
        raw = self.raw()
        raw = raw[: re.search(r"(\x1b(\[[?0-9;]*)?)?\Z", raw).start()]
        at = 0
        while at < len(raw):
            rows = screens[alternate]
            sequence = SEQUENCE.match(raw, at)
            character = raw[at]
            at = sequence.end() if sequence else at + 1
            if sequence:
                private, numbers, letter = sequence.groups()
                if private and letter in "hl":
                    on = letter == "h"
                    if numbers == "1049":
                        alternate, row, column = on, 0, 0
                        if on:
                            screens[True] = [""]
                        else:
                            row = len(screens[False]) - 1
                    elif numbers == "7":
                        wraps = on
                    else:
                        assert numbers == "25", f"unknown sequence {sequence.group()!r}"
                elif letter == "H":
                    row, column = 0, 0
                elif letter == "K":
                    # Behind the last column the cursor stands on it.
                    full = sum(map(width, rows[row][:column])) >= self.columns
                    rows[row] = rows[row][: column - full]
                elif letter == "J":
                    rows[row] = rows[row][:column]
                    del rows[row + 1 :]
                else:
                    assert letter == "m", f"unknown sequence {sequence.group()!r}"
            elif character == "\r":
                column = 0
            elif character == "\n":
                row += 1
                while len(rows) <= row:
                    rows.append("")
            else:
                assert character >= " ", f"a control character, {character!r}"
                line = rows[row].ljust(column)
                rows[row] = line[:column] + character + line[column + 1 :]
                column += 1
                used = sum(map(width, rows[row][:column]))
                assert used <= self.columns or not wraps, f"wrapped: {rows[row]!r}"
        if alternate:
            assert len(screens[True]) <= self.lines, "it would have scrolled"
        return [line.rstrip() for line in screens[alternate]]
