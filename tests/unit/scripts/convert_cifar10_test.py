#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/convert_cifar10.py on archives and folders as the publisher's: made of real images where they are, with pickles as Python 2
wrote them, and with hashes of their own."""
import errno
import hashlib
import io
import os
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

from interop import CIFAR10, ROOT

SCRIPT = os.path.join(ROOT, "scripts", "convert_cifar10.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import convert_cifar10  # noqa: E402

RECORDS = 20
NAMES = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"
NUMPY = b"numpy.core.multiarray"


def text(value):
    """A str of Python 2: protocol 2's SHORT_BINSTRING or BINSTRING."""
    return (b"U" + struct.pack("<B", len(value)) if len(value) < 256 else b"T" + struct.pack("<i", len(value))) + value


def number(value):
    return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)


def array(shape, content, column_major=False, module=NUMPY, kind=b"u1"):
    """What cPickle and NumPy wrote for an array of bytes: _reconstruct(ndarray, (0,), 'b') and its state with dtype('u1', 0, 1)."""
    return (b"c" + module + b"\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R("
            + number(1) + b"".join(map(number, shape)) + (b"\x86" if len(shape) == 2 else b"\x85")
            + b"cnumpy\ndtype\n" + text(kind) + number(0) + number(1) + b"\x87R(" + number(3) + text(b"|") + b"NNN"
            + 2 * (b"J" + struct.pack("<i", -1)) + number(0) + b"tb" + (b"\x88" if column_major else b"\x89") + text(content) + b"tb")


def batch(records, *, title=b"training batch 1 of 5", labels=None, images=None, column_major=False, module=NUMPY):
    """A file of the Python version with these records of the binary one."""
    rows = [records[at + 1:at + 3073] for at in range(0, len(records), 3073)]
    if images is None:
        content = b"".join(bytes(column) for column in zip(*rows)) if column_major else b"".join(rows)
        images = array((len(rows), 3072), content, column_major, module)
    labels = list(records[::3073]) if labels is None else labels
    names = [b"leptodactylus_%06d.png" % i for i in range(len(rows))]
    return (b"\x80\x02}q\x01(" + text(b"batch_label") + text(title) + text(b"labels") + b"]q\x02(" + b"".join(map(number, labels)) + b"e"
            + text(b"data") + images + text(b"filenames") + b"](" + b"".join(map(text, names)) + b"eu.")


def meta(names=NAMES):
    """In protocol 0, to have both."""
    lines = b"".join(b"S'" + name + b"'\na" for name in names.split())
    return b"(dp1\nS'num_cases_per_batch'\np2\nI10000\nsS'label_names'\np3\n(lp4\n" + lines + b"sS'num_vis'\np5\nI3072\ns."


def pattern(seed):
    return b"".join(bytes([(i + seed) % 10]) + bytes((seed + 7 * i + p * (i + 1)) % 251 for p in range(3072)) for i in range(RECORDS))


def md5(content):
    return hashlib.md5(content).hexdigest()


def open_when_read(pipe):
    """The writing end of a named pipe, once somebody has opened it to read."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class ConvertCifar10(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.above = folder.name
        self.out = os.path.join(self.above, "cifar-10-batches-bin")
        self.binary = {f"{name}.bin": pattern(seed) for seed, name in enumerate(convert_cifar10.BATCHES)}
        self.python = {name: batch(self.binary[f"{name}.bin"]) for name in convert_cifar10.BATCHES} | {"batches.meta": meta()}

    def folder(self, files=None):
        path = os.path.join(self.above, "cifar-10-batches-py")
        os.mkdir(path)
        for name, content in (self.python if files is None else files).items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        return path

    def archive(self, files=None, cut=None):
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w:gz") as archive:
            for name, content in {"readme.html": b"<html>", **(self.python if files is None else files)}.items():
                member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        path = os.path.join(self.above, "cifar-10-python.tar.gz")
        with open(path, "wb") as file:
            file.write(whole.getvalue()[:cut])
        return path

    def published(self, archive="", records=RECORDS):
        if archive:
            with open(archive, "rb") as file:
                archive = md5(file.read())
        return convert_cifar10.Published(archive, {name: md5(content) for name, content in self.python.items()}, records)

    def converted(self, source, published):
        convert_cifar10.convert(source, self.out, published)
        result = {}
        for name in os.listdir(self.out):
            with open(os.path.join(self.out, name), "rb") as file:
                result[name] = file.read()
        return result

    def refused(self, source, published, *words):
        """It fails with these words, and nothing is left of what it began."""
        before = sorted(os.listdir(self.above))
        with self.assertRaises(convert_cifar10.Unusable) as error:
            convert_cifar10.convert(source, self.out, published)
        for word in words:
            self.assertIn(word, str(error.exception))
        self.assertEqual(sorted(os.listdir(self.above)), before)

    def test_real_images_come_out_byte_for_byte(self):
        if not os.path.exists(os.path.join(CIFAR10, "data_batch_1.bin")):
            print(f"skipped: no CIFAR-10 in {CIFAR10}; set MUSTER_TEST_CIFAR10", flush=True)
            self.skipTest("no CIFAR-10")
        for name in (*self.binary, "batches.meta.txt"):
            with open(os.path.join(CIFAR10, name), "rb") as file:
                self.binary[name] = file.read()
        names = self.binary["batches.meta.txt"].rstrip(b"\n") + b"\n"  # the publisher's file ends with an empty line
        self.python = {name: batch(self.binary[f"{name}.bin"], column_major=name == "data_batch_2") for name in convert_cifar10.BATCHES}
        self.python["batches.meta"] = meta(names)
        archive = self.archive()
        count = len(self.binary["test_batch.bin"]) // 3073
        result = self.converted(archive, self.published(archive, count))
        self.assertEqual(result.keys(), self.binary.keys())
        self.assertEqual(result.pop("batches.meta.txt"), names)
        for name, content in result.items():
            self.assertTrue(content == self.binary[name], name)  # unittest's own comparison takes minutes to print megabytes

    def test_a_folder_gives_what_the_archive_gives(self):
        expected = {**self.binary, "batches.meta.txt": NAMES}
        self.assertEqual(self.converted(self.folder(), self.published()), expected)
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual(os.stat(self.out).st_mode & 0o777, 0o777 & ~umask)
        self.out = os.path.join(self.above, "second")
        archive = self.archive()
        self.assertEqual(self.converted(archive, self.published(archive)), expected)

    def test_the_program_takes_the_published_files_only(self):
        source = self.archive()
        with open(source, "rb") as file:
            found = md5(file.read())
        result = subprocess.run([sys.executable, SCRIPT, source, self.out], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr, f"convert_cifar10.py: {source} is not the published file: its MD5 is {found}, not "
                                        "c58f30108f718f92721af3b95e74349a; download it again\n")
        source = self.folder()
        result = subprocess.run([sys.executable, SCRIPT, source, self.out], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{source}/data_batch_1 is not the published file: its MD5 is {md5(self.python['data_batch_1'])}, not "
                      "c99cafc152244af753f735de768cd75f", result.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_an_archive_that_was_cut_off_is_named(self):
        published = self.published(self.archive())
        source = self.archive(cut=5000)
        self.refused(source, published, source, "its MD5 is", published.archive, "; it was cut off; download it again")
        self.refused(source, self.published(source), source, "is no complete archive")
        for content in (b"", b"no archive"):
            with open(source, "wb") as file:
                file.write(content)
            self.refused(source, published, f"its MD5 is {md5(content)}, not {published.archive}")
            self.refused(source, self.published(source), source, "is no complete archive")

    def test_a_file_in_the_archive_has_its_own_hash(self):
        published = self.published()
        self.python["data_batch_3"] = batch(pattern(77))
        source = self.archive()
        self.refused(source, self.published(source)._replace(files=published.files), "/data_batch_3 is not the published file",
                     md5(self.python["data_batch_3"]), published.files["data_batch_3"])

    def test_what_is_missing_is_named(self):
        published = self.published()
        del self.python["data_batch_4"], self.python["batches.meta"]
        source = self.folder()
        self.refused(source, published, f"{source} lacks batches.meta, data_batch_4")
        source = self.archive()
        self.refused(source, self.published(source)._replace(files=published.files), f"{source} lacks batches.meta, data_batch_4")
        with self.assertRaises(FileNotFoundError):
            convert_cifar10.convert(os.path.join(self.above, "absent"), self.out, published)

    def test_a_wrong_batch_is_named(self):
        records = self.binary["data_batch_5.bin"]
        few, short = records[:3073 * 19], array((RECORDS, 3072), records[:5000])
        for content, words in (
                (batch(few), "shape (19, 3072)"), (batch(records, images=short), "in 5000 bytes, not 20 images of 3072"),
                (batch(records, images=array((61440,), bytes(61440))), "shape (61440,)"),
                (batch(records, images=array((RECORDS, 3072), bytes(61440), kind=b"i1")), "type b'i1'"),
                (batch(records, labels=[3] * 19), "19 labels for 20 images"), (batch(records, labels=[3] * 19 + [10]), "image 19 has label 10"),
                (batch(records, images=text(b"x")), "no labels and images"), (batch(records)[:-1], "cannot read"),
                (b"\x80\x02]q\x01.", "no dictionary"), (b"", "cannot read")):
            self.python["data_batch_5"] = content
            source = self.folder()
            self.refused(source, self.published(), f"{source}/data_batch_5", words)
            for name in os.listdir(source):
                os.remove(os.path.join(source, name))
            os.rmdir(source)

    def test_nothing_but_an_array_is_called(self):
        told = os.path.join(self.above, "told")
        command = text(f"touch {told}".encode())
        for content in (b"\x80\x02}(" + text(b"labels") + b"cos\nsystem\n" + command + b"\x85Ru.",
                        b"\x80\x02cbuiltins\neval\n" + text(b"1") + b"\x85R.", b"\x80\x02cnumpy\nload\n.",
                        batch(self.binary["test_batch.bin"], module=b"numpy.core.other"),
                        b"(S'touch " + told.encode() + b"'\nios\nsystem\n.", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R."):
            self.python["test_batch"] = content
            with self.assertRaisesRegex(convert_cifar10.Unusable, r"it names \S+, which no file of CIFAR-10 does"):
                convert_cifar10.read_pickle("test_batch", content)
        self.assertFalse(os.path.exists(told))

    def test_a_pickle_is_read_only_after_its_hash(self):
        published = self.published()
        self.python["data_batch_1"] = b"\x80\x02cos\nsystem\n."
        source = self.folder()
        self.refused(source, published, "its MD5 is")

    def test_what_is_there_stays(self):
        source = self.folder()
        os.mkdir(self.out)
        self.refused(source, self.published(), f"{self.out} is there already")
        os.rmdir(self.out)
        os.symlink("nowhere", self.out)
        self.refused(source, self.published(), f"{self.out} is there already")

    def test_a_signal_leaves_nothing(self):
        """The source is a pipe that nobody feeds any more, so the conversion is under way for certain when the signal comes. The pipe
        ends after it: Python runs its handler when the call that is under way returns, and a signal just before a read does not end it."""
        source = os.path.join(self.above, "pipe")
        os.mkfifo(source)
        with subprocess.Popen([sys.executable, SCRIPT, source, self.out], stderr=subprocess.DEVNULL) as process:
            self.addCleanup(process.kill)
            with os.fdopen(open_when_read(source), "wb"):
                self.assertEqual(len([name for name in os.listdir(self.above) if name.startswith(".cifar-10")]), 1)
                process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 128 + signal.SIGTERM)
        self.assertEqual(os.listdir(self.above), ["pipe"])


if __name__ == "__main__":
    unittest.main()
