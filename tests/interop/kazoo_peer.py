"""kazoo as one side of a pair. A line on standard input is "NUMBER COMMAND ARGUMENTS", and each is answered by a line
"> NUMBER ok WORDS" or "> NUMBER error TEXT", in whatever order they come to their ends: any number of waits can be under
way. The commands are in lock.rs. The end of the input ends the process at once: its sessions are left to the
server.

Stamps are CLOCK_MONOTONIC.
"""

import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo_locks import CuratorLock, CuratorReadLock, CuratorWriteLock

LIMIT_IN_A_LOOP = 30

sessions = {}
locks = {}
output = threading.Lock()

KINDS = {
    # Beside Curator's nodes, in names and in whom it waits for.
    "mutex": CuratorLock,
    "read": CuratorReadLock,
    "write": CuratorWriteLock,
    # kazoo's own.
    "stock": lambda client, path, name: client.Lock(path, name),
    "stock-read": lambda client, path, name: client.ReadLock(path, name),
    "stock-write": lambda client, path, name: client.WriteLock(path, name),
    # kazoo's own names, and it waits for Curator's as well.
    "plus": lambda client, path, name: client.Lock(path, name, extra_lock_patterns=["-lock-"]),
}


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def connect(name, servers, timeout):
    client = KazooClient(hosts=servers, timeout=int(timeout) / 1000)
    client.start(timeout=60)
    sessions[name] = client
    return ""


def lock(name, session, kind, path):
    locks[name] = KINDS[kind](sessions[session], path, name)
    return ""


def acquired(one, limit):
    try:
        return one.acquire(timeout=limit)
    except LockTimeout:
        return False


def acquire(name, millis, _count):
    limit = None if int(millis) < 0 else int(millis) / 1000
    word = "yes" if acquired(locks[name], limit) else "no"
    return f"{word} {now()}"


def release(name):
    before = now()
    locks[name].release()
    return str(before)


def held(name):
    word = "yes" if locks[name].is_acquired else "no"
    return f"{word} {now()}"


def participants(name):
    """Who they say they are: kazoo does not tell the nodes."""
    return " ".join(locks[name].contenders())


def pause(longest):
    time.sleep(random.uniform(0, int(longest) / 1_000_000))


def holds(name, millis, longest):
    """What it logs of a hold lies within it: after the acquisition, before the release."""
    one, log, end = locks[name], [], now() + int(millis) * 1_000_000
    while now() < end:
        if not acquired(one, LIMIT_IN_A_LOOP):
            raise RuntimeError("not acquired")
        since = now()
        pause(longest)
        log.append(f"{since}:{now()}")
        one.release()
        pause(longest)
    return " ".join(log)


COMMANDS = {
    "connect": connect,
    "lock": lock,
    "acquire": acquire,
    "release": release,
    "held": held,
    "participants": participants,
    "holds": holds,
}


def answer(number, command, *arguments):
    try:
        text = "ok " + COMMANDS[command](*arguments)
    except BaseException as error:
        text = "error " + repr(error).replace("\n", " ")
    with output:
        print(f"> {number} {text}", flush=True)


def main():
    for line in sys.stdin:
        threading.Thread(target=answer, args=line.split(), daemon=True).start()
    os._exit(0)


main()
