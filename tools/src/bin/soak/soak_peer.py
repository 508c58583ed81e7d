"""A contender by kazoo's lock, on Curator's nodes. It writes the log of a worker (log.rs), and obeys the order "quiet". Arguments: the
log, the identity, the servers, the lock's path, the session timeout in milliseconds. The end of the input ends the process.

It believes to hold while is_acquired is true and the listener was not notified of LOST.
"""

import json
import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.retry import KazooRetry
from kazoo_locks import CuratorLock

LOG, IDENTITY, SERVERS, PATH, TIMEOUT = sys.argv[1:6]
log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
quiet = threading.Event()
lost = threading.Event()


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def write(at, event):
    """One write for each line: the process can be killed at any time."""
    os.write(log, (json.dumps([at, event]) + "\n").encode())


def obey():
    for line in sys.stdin:
        if line.strip() == "quiet":
            quiet.set()
    os._exit(0)


def changed(state):
    if state == KazooState.LOST:
        lost.set()


def steps():
    """As many as those of worker.rs."""
    kind = random.randrange(100)
    if kind < 70:
        return random.randrange(2, 20)
    return random.randrange(20, 320) if kind < 95 else int(TIMEOUT) * 2 // 5


def hold(client, lock):
    node = f"{PATH}/{lock.node}"
    stat = client.retry(client.exists, node)
    children = client.retry(client.get_children, PATH)
    if stat is None:
        return write(now(), {"gave_up": {"why": "its node was deleted"}})
    before = [f"{PATH}/{child}" for child in children if int(child[-10:]) < int(node[-10:])]
    name = ["lock", stat.czxid]
    write(now(), {"holds": {"hold": name, "node": node}})
    write(now(), {"behind": {"hold": name, "nodes": before}})
    for _ in range(steps()):
        asked = now()
        if lost.is_set() or not lock.is_acquired:
            return write(asked, {"lost": {"hold": name, "how": "LOST"}})
        write(asked, {"yes": {"hold": name, "after": now()}})
        time.sleep(0.003)
    write(now(), {"releases": {"hold": name, "how": "worked"}})


def release(lock):
    """Until the node is deleted, or its session is lost. After an earlier loss the node can be of the next session."""
    lost.clear()
    while not lost.is_set():
        try:
            return lock.release()
        except Exception as error:
            write(now(), {"gave_up": {"why": repr(error)}})
            time.sleep(0.1)


def turn(client):
    lost.clear()
    write(now(), {"asks": {"how": "acquire"}})
    lock = CuratorLock(client, PATH, IDENTITY)
    try:
        lock.acquire()
        hold(client, lock)
    except Exception as error:
        write(now(), {"gave_up": {"why": repr(error)}})
    release(lock)


def main():
    threading.Thread(target=obey, daemon=True).start()
    retry = KazooRetry(max_tries=20, delay=0.1, backoff=1)
    client = KazooClient(SERVERS, timeout=int(TIMEOUT) / 1000, command_retry=retry)
    client.add_listener(changed)
    client.start(timeout=90)
    while not quiet.is_set():
        turn(client)
        time.sleep(random.random() * random.choice([0.8, 0.01, 0.01]))
    write(now(), "quiet")
    threading.Event().wait()


main()
