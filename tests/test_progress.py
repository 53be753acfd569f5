"""What a person sees on stderr while libraries in C chatter."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time

from avatar3d import progress
from avatar3d.progress import ProgressBar, quiet_stderr


class Screen(io.StringIO):
    """A terminal, or with `tty` False a pipe."""

    def __init__(self, tty=True):
        super().__init__()
        self._tty = tty

    def isatty(self):
        return self._tty


def test_a_bar_says_what_is_done_and_about_how_long_it_will_take(monkeypatch):
    screen = Screen()
    clock = iter([0.0, 1.0, 10.0, 20.0])
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    bar = ProgressBar()
    for fraction, label in ((0.01, "reading"), (0.25, "growing the hair"), (0.4, "painting the skin")):
        bar(fraction, label)
    first, second, third = (line.strip() for line in screen.getvalue().split("\r")[1:])
    assert first.startswith("reading |") and "left" not in first
    assert second.startswith("growing the hair |######") and second.endswith("10 s, about 30 s left")
    assert third.endswith("20 s, about 30 s left")


def test_the_clock_goes_on_while_a_stage_says_nothing_and_the_line_is_empty_at_the_end(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    with ProgressBar() as bar:
        bar(0.1, "fitting " + "x" * 500)
        while screen.getvalue().count("fitting") < 3:
            time.sleep(0.01)
    lines = screen.getvalue().split("\r")
    assert max(map(len, lines)) < 500  # it never wraps
    assert lines[-1] == "" and lines[-2].strip() == ""


def test_in_a_pipe_a_bar_says_nothing(monkeypatch):
    screen = Screen(tty=False)
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressBar() as bar:
        bar(0.5, "fitting")
    assert screen.getvalue() == ""


def test_what_is_written_to_the_descriptor_is_kept_off_the_screen(capfd):
    with quiet_stderr():
        os.write(2, b"chatter")
    os.write(2, b"news")
    assert capfd.readouterr().err == "news"


def test_threads_that_keep_quiet_at_once_leave_stderr_as_it_was():
    inside = threading.Event()

    def first():
        with quiet_stderr():
            inside.set()
            time.sleep(0.2)  # a second one that does not wait for its turn begins meanwhile, and ends later

    def second():
        inside.wait()
        with quiet_stderr():
            first_thread.join(0.4)

    before, keep = os.fstat(2), os.dup(2)
    first_thread, second_thread = threading.Thread(target=first), threading.Thread(target=second)
    try:
        for thread in (first_thread, second_thread):
            thread.start()
        for thread in (first_thread, second_thread):
            thread.join()
        after = os.fstat(2)
    finally:
        os.dup2(keep, 2)
        os.close(keep)
    assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)


def test_a_process_without_stderr_keeps_quiet_too():
    code = "import os; from avatar3d.progress import quiet_stderr\nos.close(2)\nwith quiet_stderr(): print('done')"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout == "done\n"
