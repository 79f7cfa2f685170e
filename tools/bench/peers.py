"""The other programs of `ckpt bench`, in one process that stays warm.

Reads a command a line, answers "ok NUMBER..." or "error TEXT". Times are in seconds.

    versions               -> ok TEXT
    threads N              -> ok
    load PATH              -> ok BYTES             the state that `save` writes
    save PATH              -> ok WALL CPU          torch.save to the page cache, then fsync
    restore PATH           -> ok WALL CPU          torch.load
    zipnn REFERENCE PATH   -> ok BEST RAW DELTA    coded bytes of the file's storages: the better mode for each class of
                                                   tensors, zipnn without reference for all, its delta for all
    zipnn_rate PATH        -> ok ENCODE DECODE     bytes a second on the fp32 storages of a file, one thread
"""
import collections
import os
import resource
import signal
import sys
import time


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(action):
    wall, used = time.perf_counter(), cpu()
    action()
    return time.perf_counter() - wall, cpu() - used


def save(state, path):
    import torch

    torch.save(state, path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def tensors(value, name=""):
    """(name, tensor) of a nested state, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for key, item in enumerate(value):
            yield from tensors(item, f"{name}.{key}")


def class_of(name):
    return name.rsplit(".", 1)[-1] if name.startswith(".optimizer") else "weights"


def classes(path):
    """Bytes of the fp32 tensors of each class in storage order, and the number of bytes that are something else."""
    import torch

    state = torch.load(path, map_location="cpu", weights_only=False)
    found, other = collections.defaultdict(list), os.path.getsize(path)
    for name, tensor in tensors(state):
        if tensor.dtype == torch.float32 and tensor.dim() > 0:
            data = bytes(tensor.untyped_storage())
            found[class_of(name)].append(data)
            other -= len(data)
    return {key: b"".join(parts) for key, parts in found.items()}, other


def zipnn_sizes(reference, path):
    import zipnn

    before, _ = classes(reference)
    now, other = classes(path)
    best = raw_all = delta_all = other
    for key, data in now.items():
        plain = zipnn.ZipNN(bytearray_dtype="float32", input_format="byte", threads=1)
        delta = zipnn.ZipNN(bytearray_dtype="float32", input_format="byte", threads=1, delta_compressed_type="byte")
        raw = len(plain.compress(bytearray(data)))
        changed = len(delta.compress(bytearray(data), delta_second_data=bytearray(before[key])))
        raw_all += raw
        delta_all += changed
        best += min(raw, changed)
    return best, raw_all, delta_all


def zipnn_rate(path):
    import zipnn

    data = b"".join(classes(path)[0].values())
    codec = zipnn.ZipNN(bytearray_dtype="float32", input_format="byte", threads=1)
    encode, decode = [], []
    for _ in range(5):
        copy = bytearray(data)  # compress() overwrites what it is given
        start = time.perf_counter()
        coded = codec.compress(copy)
        middle = time.perf_counter()
        codec.decompress(coded)
        encode.append(len(data) / (middle - start))
        decode.append(len(data) / (time.perf_counter() - middle))
    return sorted(encode)[2], sorted(decode)[2]


def versions():
    words = []
    for name in ("torch", "zipnn", "numpy"):
        try:
            from importlib.metadata import version

            words.append(f"{name} {version(name)}")
        except Exception:  # not installed
            words.append(f"{name} missing")
    return ", ".join(words)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ckpt bench ends us
    state = None
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        try:
            import torch

            if command == "versions":
                answer = [versions()]
            elif command == "threads":
                torch.set_num_threads(int(words[0]))
                answer = []
            elif command == "load":
                state = torch.load(words[0], map_location="cpu", weights_only=False)
                answer = [os.path.getsize(words[0])]
            elif command == "save":
                answer = timed(lambda: save(state, words[0]))
            elif command == "restore":
                answer = timed(lambda: torch.load(words[0], map_location="cpu", weights_only=False))
            elif command == "zipnn":
                answer = zipnn_sizes(words[0], words[1])
            elif command == "zipnn_rate":
                answer = zipnn_rate(words[0])
            else:
                raise ValueError(f"unknown command {command}")
            print("ok", *answer, flush=True)
        except Exception as problem:  # one answer a command, whatever happens
            print("error", type(problem).__name__, str(problem).replace("\n", " "), flush=True)


main()
