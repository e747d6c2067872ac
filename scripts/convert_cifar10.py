#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder that muster-train --data reads from CIFAR-10's Python version.

  convert_cifar10.py cifar-10-python.tar.gz [FOLDER]   from the publisher's archive
  convert_cifar10.py cifar-10-batches-py [FOLDER]      from its files, as torchvision leaves them

FOLDER (default: cifar-10-batches-bin, here) must not be there yet. It gets data_batch_1.bin to data_batch_5.bin, test_batch.bin and
batches.meta.txt: the files of CIFAR-10's binary version, with the same images in the same order. It appears whole or not at all.

Every file must have the MD5 of the published one. Needs Python 3.9 or later, and no package."""
import argparse
import gzip
import hashlib
import io
import os
import pickle
import shutil
import signal
import sys
import tarfile
import tempfile
import typing
import zlib

IMAGE_BYTES = 3 * 32 * 32
CLASSES = 10
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
META = "batches.meta"


class Published(typing.NamedTuple):
    """What the files of a data set must be."""
    archive: str  # the MD5 of the archive
    files: typing.Dict[str, str]  # the MD5 of each file in it
    records: int  # the images of a batch


# The archive's MD5 stands on https://www.cs.toronto.edu/~kriz/cifar.html, those of the files in torchvision's
# torchvision/datasets/cifar.py (github.com/pytorch/vision), which checks them as well.
CIFAR10 = Published(
    "c58f30108f718f92721af3b95e74349a",
    {"data_batch_1": "c99cafc152244af753f735de768cd75f", "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
     "data_batch_3": "54ebc095f3ab1f0389bbae665268c751", "data_batch_4": "634d18415352ddfa80567beed471001a",
     "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb", "test_batch": "40351d587109b95175f43aff81a1287e",
     META: "5ff9c542aee3614f3951f8cda6e48888"},
    10000)


class Unusable(Exception):
    """A source that cannot be converted; the text says why and names the file."""


class Dtype:
    """Stands for numpy.dtype: of the element type only the name is kept."""

    def __init__(self, name, *_):
        self.name = name

    def __setstate__(self, state):
        pass


class Array:
    """Stands for numpy.ndarray: its shape, its element type and its bytes as they were written."""
    shape, dtype, column_major, content = (), None, False, None

    def __setstate__(self, state):
        _, self.shape, self.dtype, self.column_major, self.content = state


def reconstruct(*_):
    """Stands for numpy.core.multiarray._reconstruct, which makes an array that gets its state afterwards."""
    return Array()


class BatchReader(pickle.Unpickler):
    """Reads a batch and nothing else: a pickle names the functions that are called when it is read, so only the three names of a
    numpy array are allowed, and even they stand for classes of this file. Texts of Python 2 become bytes."""

    ALLOWED = {("numpy.core.multiarray", "_reconstruct"): reconstruct, ("numpy", "ndarray"): Array, ("numpy", "dtype"): Dtype}

    def __init__(self, content):
        super().__init__(io.BytesIO(content), encoding="bytes")

    def find_class(self, module, name):
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of CIFAR-10 does")
        return self.ALLOWED[module, name]


def md5_of(file):
    """The MD5 of what is left of an open file."""
    # It tells a damaged copy from the published one, and no secret hangs on it; a hardened Python allows that only when it is told so.
    digest = hashlib.md5(usedforsecurity=False)
    for part in iter(lambda: file.read(1 << 20), b""):
        digest.update(part)
    return digest.hexdigest()


def require_hash(path, found, expected, hint=""):
    if found != expected:
        raise Unusable(f"{path} is not the published file: its MD5 is {found}, not {expected}{hint}")


def is_cut_off(path):
    """Whether a compressed file ends before its content does."""
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except EOFError:
        return True
    except (OSError, zlib.error):
        pass
    return False


def files_of_archive(path, published):
    """The names and bytes of the files in an archive, whose hash is compared before anything of it is read."""
    try:
        with open(path, "rb") as file:
            found = md5_of(file)
            if found != published.archive:
                hint = "; it was cut off" if is_cut_off(path) else ""
                require_hash(path, found, published.archive, f"{hint}; download it again")
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r|gz") as archive:
                for member in archive:
                    folder, name = os.path.split(member.name)
                    if member.isfile() and folder == "cifar-10-batches-py" and name in published.files:
                        yield name, archive.extractfile(member).read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise Unusable(f"{path} is no complete archive ({error}); download it again") from error


def files_of_folder(path, published):
    for name in published.files:
        try:
            with open(os.path.join(path, name), "rb") as file:
                yield name, file.read()
        except FileNotFoundError:
            pass  # named with all others that are missing


def read_pickle(path, content):
    try:
        value = BatchReader(content).load()
    except Exception as error:  # the bytes of a pickle decide what goes wrong in it
        raise Unusable(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise Unusable(f"{path} holds no dictionary, as the files of CIFAR-10 do")
    return value


def records_of(path, batch, count):
    """The records of the binary version: a label and the pixels, colour by colour, of each image."""
    labels, images = batch.get(b"labels"), batch.get(b"data")
    if not isinstance(labels, list) or not isinstance(images, Array) or not isinstance(images.content, bytes):
        raise Unusable(f"{path} holds no labels and images")
    content, kind = images.content, getattr(images.dtype, "name", None)
    if images.shape != (count, IMAGE_BYTES) or len(content) != count * IMAGE_BYTES or kind != b"u1":
        raise Unusable(f"{path} holds an array of shape {images.shape} and type {kind!r} in {len(content)} bytes, not {count} images of "
                       f"{IMAGE_BYTES} bytes")
    if len(labels) != count:
        raise Unusable(f"{path} holds {len(labels)} labels for {count} images")
    for i, label in enumerate(labels):
        if not isinstance(label, int) or not 0 <= label < CLASSES:
            raise Unusable(f"{path}: image {i} has label {label!r}, labels go from 0 to {CLASSES - 1}")
    if images.column_major:
        return b"".join(bytes([label]) + content[i::count] for i, label in enumerate(labels))
    return b"".join(bytes([label]) + content[i * IMAGE_BYTES:(i + 1) * IMAGE_BYTES] for i, label in enumerate(labels))


def class_names(path, meta):
    names = meta.get(b"label_names")
    if not isinstance(names, list) or len(names) != CLASSES or not all(isinstance(name, bytes) for name in names):
        raise Unusable(f"{path} holds no {CLASSES} names of classes")
    return b"".join(name + b"\n" for name in names)


def write_all(files, source, folder, published):
    missing = set(published.files)
    for name, content in files:
        path = os.path.join(source, name)
        # The very bytes that are read below: nobody can put other ones in their place meanwhile.
        require_hash(path, hashlib.md5(content, usedforsecurity=False).hexdigest(), published.files[name], "; get it again")
        value = read_pickle(path, content)
        result = class_names(path, value) if name == META else records_of(path, value, published.records)
        with open(os.path.join(folder, "batches.meta.txt" if name == META else f"{name}.bin"), "wb") as file:
            file.write(result)
        missing.discard(name)
    if missing:
        raise Unusable(f"{source} lacks {', '.join(sorted(missing))}; give cifar-10-python.tar.gz, or the folder cifar-10-batches-py")


def convert(source, destination, published=CIFAR10):
    """Throws Unusable or OSError, and then leaves nothing behind."""
    if os.path.lexists(destination):
        raise Unusable(f"{destination} is there already; give another folder, or remove it")
    files = files_of_folder if os.path.isdir(source) else files_of_archive
    above, name = os.path.split(os.path.abspath(destination))
    folder = tempfile.mkdtemp(prefix=f".{name}-", dir=above)
    try:
        write_all(files(source, published), source, folder, published)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(folder, 0o777 & ~mask)  # as mkdir makes one: others may read the images
        os.rename(folder, destination)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE", help="cifar-10-python.tar.gz or cifar-10-batches-py")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default="cifar-10-batches-bin")
    options = parser.parse_args()
    # As Ctrl-C does: what was begun is removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        convert(options.source, options.folder)
    except (Unusable, OSError) as error:
        print(f"convert_cifar10.py: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: {CIFAR10.records * (len(BATCHES) - 1):,} training images, {CIFAR10.records:,} test images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
