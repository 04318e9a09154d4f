"""Uses up one allowance of the kernel's, or takes one piece of it.

`allowances.py exhaust KIND FILE` takes as much as there is, writes "COUNT ERRNO" to FILE and keeps it until it is ended.
`allowances.py one KIND` takes one piece and prints "ok", or the error number.
"""

import ctypes
import os
import signal
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
# More than any kind gives, so that a host without a limit ends the loop too.
MOST = 6_000
F_SETPIPE_SZ = 1031


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def inotify(number):
    return checked(libc.inotify_init1(0))


def message_queue(number):
    name = f"/stead-walls-{os.getpid()}-{number}".encode()
    queue = checked(libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None))
    libc.mq_unlink(name)
    return queue


def queued_signal(number):
    # Blocked, so it stays queued.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    return checked(libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(number)))


def terminal(number):
    return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


def pipe_buffer(number):
    import fcntl

    ends = os.pipe()
    fcntl.fcntl(ends[0], F_SETPIPE_SZ, 1 << 20)
    return ends


def asynchronous_io(number):
    # io_setup: the number is the same on every 64-bit architecture but x86-64.
    call = 206 if os.uname().machine == "x86_64" else 0
    context = ctypes.c_ulong(0)
    return checked(libc.syscall(call, 64, ctypes.byref(context)))


KINDS = {
    "inotify": inotify,
    "message_queue": message_queue,
    "queued_signal": queued_signal,
    "terminal": terminal,
    "pipe_buffer": pipe_buffer,
    "asynchronous_io": asynchronous_io,
}


def main():
    action, kind = sys.argv[1:3]
    take = KINDS[kind]
    kept, error = [], 0
    try:
        for number in range(1 if action == "one" else MOST):
            kept.append(take(number))
    except OSError as refused:
        error = refused.errno
    if action == "one":
        print(error or "ok")
        return
    with open(sys.argv[3] + ".new", "w") as file:
        file.write(f"{len(kept)} {error}")
    os.rename(sys.argv[3] + ".new", sys.argv[3])
    time.sleep(300)


main()
