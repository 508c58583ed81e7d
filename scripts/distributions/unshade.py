"""Gives classes their original names: python3 unshade.py IN.jar OUT.jar [FOLDER...]

Apache Flink ships ZooKeeper and Curator under package names of its own. This program gives their classes the original names back, so
that they run as the projects published them. With folders the new jar has only the classes below them.

A class names packages only in the text entries of its constant pool. Each entry has a length of its own and the rest of the class
refers to entries by number, so the program changes these entries and copies everything else.
"""

import re
import struct
import sys
import zipfile

SHADED = re.compile(rb"org([/.])apache\1flink\1shaded\1(?:zookeeper3|curator[45])\1")
TEXT = 1
LONG_AND_DOUBLE = (5, 6)
# The bytes that follow the tag of an entry: of classes and names, method handles, numbers and references, and wide numbers.
SIZES = {7: 2, 8: 2, 16: 2, 19: 2, 20: 2, 15: 3, 3: 4, 4: 4, 9: 4, 10: 4, 11: 4, 12: 4, 17: 4, 18: 4, 5: 8, 6: 8}
# Before the pool: the magic number, the version and the number of entries.
HEAD = struct.Struct(">IIH")


def unshaded(data):
    """Returns the class with the original package names."""
    _, _, end = HEAD.unpack_from(data)
    result = bytearray(data[: HEAD.size])
    at, number = HEAD.size, 1
    while number < end:
        tag = data[at]
        if tag == TEXT:
            (length,) = struct.unpack_from(">H", data, at + 1)
            size = 2 + length
            text = SHADED.sub(b"", data[at + 3 : at + 3 + length])
            result += struct.pack(">BH", TEXT, len(text)) + text
        else:
            size = SIZES[tag]
            result += data[at : at + 1 + size]
        at += 1 + size
        # A long and a double take two numbers.
        number += 2 if tag in LONG_AND_DOUBLE else 1
    return bytes(result) + data[at:]


def main(source, target, *folders):
    count = 0
    with zipfile.ZipFile(source) as jar, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for entry in jar.namelist():
            shaded = SHADED.match(entry.encode())
            if entry.endswith("/") or not shaded:
                continue
            name = entry[shaded.end() :]
            if folders and not name.startswith(folders):
                continue
            data = jar.read(entry)
            out.writestr(zipfile.ZipInfo(name), unshaded(data) if name.endswith(".class") else data, zipfile.ZIP_DEFLATED)
            count += 1
    if count == 0:
        sys.exit(f"{source} has no class of Flink's ZooKeeper or Curator")


main(*sys.argv[1:])
