# Runs in the hostile box and tries, in turns and for ever, to use up what a box shares with others. The box's limits bound all of it.
import ctypes, mmap, os, signal, socket, sys, time

libc = ctypes.CDLL(None, use_errno=True)


def in_child(work):
    try:
        pid = os.fork()
    except OSError:
        time.sleep(0.05)
        return
    if pid == 0:
        try:
            work()
        except BaseException:
            pass
        os._exit(0)
    deadline = time.time() + 3
    while time.time() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.02)
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass


def until_refused(take):
    kept = []
    for _ in range(20000):
        kept.append(take())
    time.sleep(0.5)


def inotify():
    until_refused(lambda: os.fdopen(check(libc.inotify_init()), "rb", 0))


def queues():
    number = iter(range(100000))
    until_refused(lambda: check(libc.mq_open(b"/q%d" % next(number), os.O_CREAT | os.O_RDWR, 0o600, None)))


def terminals():
    until_refused(os.openpty)


def sockets():
    def pair():
        left, right = socket.socketpair()
        left.setblocking(False)
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        try:
            while True:
                left.send(b"x" * 65536)
        except BlockingIOError:
            return left, right

    until_refused(pair)


def forks():
    def bomb():
        for _ in range(1000):
            if os.fork() == 0:
                time.sleep(2)
                os._exit(0)

    bomb()


def syncs():
    with open("/workspace/synced", "wb") as file:
        for _ in range(200):
            os.sync()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())


def full_disk():
    try:
        with open("/workspace/full", "wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
    finally:
        time.sleep(1)
        os.unlink("/workspace/full")


def memory():
    until_refused(lambda: mmap.mmap(-1, 1 << 20).write(b"x" * (1 << 20)))


def check(descriptor):
    if descriptor < 0:
        raise OSError(ctypes.get_errno())
    return descriptor


try:
    os.close(os.open("/workspace/sparse", os.O_CREAT | os.O_WRONLY, 0o644))
    os.truncate("/workspace/sparse", 1 << 40)
except OSError:
    pass
attacks = [globals()[name] for name in sys.argv[1:]]
while True:
    for attack in attacks:
        in_child(attack)
    time.sleep(0.1)
