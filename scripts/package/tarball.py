# SPDX-License-Identifier: Apache-2.0
"""Writes the tarball from an installed tree. The same inputs give the same bytes.

usage: tarball.py STAGE SOURCE LIBRARIES DIST

The arguments are those of wheel.py, for muster-launch; the path of the tarball goes to stdout. Everything lies in one folder, muster-VERSION-linux-x86_64, which works
wherever it is unpacked: bin, lib, include, share, python (the module), LICENSE, licenses and README. SOURCE_DATE_EPOCH is the time of its files.
"""

import gzip
import io
import os
import sys
import tarfile

from wheel import files_below, licences_of_parts, read, version_of

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tarball_readme.txt")


class Tarball:
    """A tarball that is being written; the names are relative to its one folder."""

    def __init__(self, file, folder, date):
        self._packed = gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=date)
        self._tar = tarfile.open(fileobj=self._packed, mode="w", format=tarfile.GNU_FORMAT)
        self._folder, self._date, self._folders = folder, date, set()

    def _entry(self, name, kind, mode):
        entry = tarfile.TarInfo(os.path.join(self._folder, name) if name else self._folder)
        entry.type, entry.mode, entry.mtime = kind, mode, self._date
        return entry

    def _add_folder(self, name):
        if name not in self._folders:
            self._folders.add(name)
            if name:
                self._add_folder(os.path.dirname(name))
            self._tar.addfile(self._entry(name, tarfile.DIRTYPE, 0o755))

    def add(self, name, data, executable=False):
        self._add_folder(os.path.dirname(name))
        entry = self._entry(name, tarfile.REGTYPE, 0o755 if executable else 0o644)
        entry.size = len(data)
        self._tar.addfile(entry, io.BytesIO(data))

    def add_link(self, name, target):
        self._add_folder(os.path.dirname(name))
        entry = self._entry(name, tarfile.SYMTYPE, 0o777)
        entry.linkname = target
        self._tar.addfile(entry)

    def close(self):
        self._tar.close()
        self._packed.close()


def add_staged(tarball, stage):
    for top in ("bin", "include", "lib", "share"):
        for path in files_below(os.path.join(stage, top)):
            place = os.path.join(top, path)
            if os.path.islink(os.path.join(stage, place)):
                tarball.add_link(place, os.readlink(os.path.join(stage, place)))
            else:
                data = read(stage, place)
                tarball.add(place, data, executable=top == "bin" or data.startswith(b"\x7fELF"))


def main(stage, source, libraries, dist):
    version = version_of(source)
    folder = f"muster-{version}-linux-x86_64"
    path = os.path.join(dist, folder + ".tar.gz")
    os.makedirs(dist, exist_ok=True)
    with open(path, "wb") as file:
        tarball = Tarball(file, folder, int(os.environ["SOURCE_DATE_EPOCH"]))
        tarball.add("README", read(README).replace(b"@VERSION@", version.encode()))
        tarball.add("LICENSE", read(source, "LICENSE"))
        for name, content in licences_of_parts(stage, libraries):
            tarball.add(f"licenses/{name}", content)
        add_staged(tarball, stage)
        module = os.path.join(source, "launcher", "python")
        for name in files_below(module):
            tarball.add(f"python/{name}", read(module, name))
        tarball.close()
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
