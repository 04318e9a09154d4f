"""Fills socket buffers without reading them, up to 256 MiB, and keeps them.

`sockets.py KIND FILE` writes "SOCKETS" to FILE when it cannot, or need not, take more.
"""

import os
import socket
import struct
import sys
import time

MOST_BYTES = 256 << 20
MOST_SOCKETS = 2_000
# Bytes that a socket of the default size holds.
ABOUT = 200_000
RTM_GETLINK, NLM_F_REQUEST = 18, 1

kind, told = sys.argv[1:3]
kept, taken = [], 0


def tell(text):
    with open(told + ".new", "w") as file:
        file.write(str(text))
    os.rename(told + ".new", told)


def fill(sender):
    global taken
    sender.setblocking(False)
    try:
        while taken < MOST_BYTES:
            taken += sender.send(bytes(65_536))
    except OSError:
        pass


def tcp(listener):
    sender = socket.create_connection(listener.getsockname())
    kept.extend([sender, listener.accept()[0]])
    fill(sender)


def udp(sender):
    global taken
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    kept.append(receiver)
    for _ in range(8):
        sender.sendto(bytes(60_000), receiver.getsockname())
    taken += ABOUT


def unix():
    pair = socket.socketpair()
    kept.extend(pair)
    fill(pair[0])


def netlink():
    global taken
    request = struct.pack("=IHHII", 32, RTM_GETLINK, NLM_F_REQUEST, 1, 0) + struct.pack("=BxHiII", 0, 0, 1, 0, 0)
    asker = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    asker.setblocking(False)
    kept.append(asker)
    try:
        for _ in range(120):
            asker.send(request)
    except OSError:
        pass
    taken += ABOUT


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    step = {"tcp": lambda: tcp(listener), "udp": lambda: udp(sender), "unix": unix, "netlink": netlink}[kind]
    deadline = time.monotonic() + 20
    try:
        while taken < MOST_BYTES and len(kept) < MOST_SOCKETS and time.monotonic() < deadline:
            step()
    except OSError:
        pass
    tell(len(kept))
    time.sleep(300)


main()
