# Calls every system call number once, each in a child process, and prints those that the filter allows.
import ctypes
import errno
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)
# These create processes, which would continue this script; the probe tests them by name.
SKIPPED = {56, 57, 58, 435}

for number in range(0, 600):
    if number in SKIPPED:
        continue
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(1)
        ctypes.set_errno(0)
        result = libc.syscall(number, -1, -1, -1, -1, -1, -1)
        os.write(writer, str(0 if result >= 0 else ctypes.get_errno()).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 16)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if said:
        refused = int(said) in (errno.EPERM, errno.ENOSYS)
    else:
        refused = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS
    if not refused:
        print(number)
