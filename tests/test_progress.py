"""What a person sees on stderr while libraries in C chatter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from avatar3d.progress import quiet_stderr


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
