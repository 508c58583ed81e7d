"""kazoo's locks on Curator's nodes: beside stock Curator and this crate on one path."""

from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class CuratorLock(Lock):
    """Beside Curator's InterProcessMutex."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class CuratorReadLock(ReadLock):
    """Beside the read half of Curator's InterProcessReadWriteLock."""

    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


class CuratorWriteLock(WriteLock):
    """Beside the write half of Curator's InterProcessReadWriteLock."""

    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]
