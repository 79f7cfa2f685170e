"""The other programs of `ckpt bench`, in one process that stays warm.

Reads a command a line, answers "ok NUMBER..." or "error TEXT". Times are in seconds.

    versions               -> ok TEXT
    threads N              -> ok
    load PATH              -> ok BYTES             the state that `save` writes
    save PATH              -> ok WALL CPU          torch.save to the page cache, then fsync
    restore PATH           -> ok WALL CPU          torch.load
    sizes REFERENCE PATH   -> ok XZ OPENZL BEST RAW DELTA      the file's size as a share of itself: xz -9; openzl on the
                                                   fp32 storages; zipnn by the better mode for each class of tensors,
                                                   without reference for all, as delta for all; -1: not installed
    zipnn_speed REFERENCE PATH -> ok ENCODE DECODE DELTA_ENCODE DELTA_DECODE     bytes a second on the fp32 storages of a
                                                   file, one thread, once
"""
import collections
import functools
import lzma
import os
import resource
import signal
import sys
import time
import warnings


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
            data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy().tobytes()
            found[class_of(name)].append(data)
            other -= len(data)
    return {key: b"".join(parts) for key, parts in found.items()}, other


def zipnn_codecs():
    import zipnn

    arguments = {"bytearray_dtype": "float32", "input_format": "byte", "threads": 1}
    return zipnn.ZipNN(**arguments), zipnn.ZipNN(**arguments, delta_compressed_type="byte")


def zipnn_sizes(before, now):
    best = raw_all = delta_all = 0
    for key, data in now.items():
        plain, delta = zipnn_codecs()
        raw = len(plain.compress(bytearray(data)))  # a copy: compress() overwrites what it is given
        changed = len(delta.compress(bytearray(data), delta_second_data=bytearray(before[key])))
        raw_all += raw
        delta_all += changed
        best += min(raw, changed)
    return best, raw_all, delta_all


def openzl_size(now):
    try:
        import numpy
        import openzl.ext as zl
    except ImportError:
        return None
    compressor = zl.Compressor()
    compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    compressor.select_starting_graph(
        zl.nodes.Float32Deconstruct()(compressor, zl.graphs.Compress(), zl.graphs.Compress()))
    size = 0
    for data in now.values():
        context = zl.CCtx()
        context.ref_compressor(compressor)
        size += len(context.compress([zl.Input(zl.Type.Numeric, numpy.frombuffer(data, dtype=numpy.uint32))]))
    return size


def sizes(reference, path):
    whole = os.path.getsize(path)
    before, _ = classes(reference)
    now, other = classes(path)
    with open(path, "rb") as file:
        answer = [len(lzma.compress(file.read(), preset=9)) / whole]
    openzl = openzl_size(now)
    answer.append(-1 if openzl is None else (openzl + other) / whole)
    return answer + [(size + other) / whole for size in zipnn_sizes(before, now)]


@functools.lru_cache(maxsize=2)
def storages(path):
    return b"".join(classes(path)[0].values())


def zipnn_speed(reference, path):
    before, data, rates = storages(reference), storages(path), []
    for codec, extra in zip(zipnn_codecs(), ((), ("delta_second_data",))):
        copy, second = bytearray(data), {name: bytearray(before) for name in extra}
        start = time.perf_counter()
        coded = codec.compress(copy, **second)
        middle = time.perf_counter()
        second = {name: bytearray(before) for name in extra}
        again = time.perf_counter()
        back = codec.decompress(coded, **second)
        end = time.perf_counter()
        if bytes(back) != data:
            raise ValueError("zipnn gives other bytes back")
        rates += [len(data) / (middle - start), len(data) / (end - again)]
    return rates


def versions():
    words = []
    for name in ("torch", "zipnn", "openzl", "numpy"):
        try:
            from importlib.metadata import version

            words.append(f"{name} {version(name)}")
        except Exception:  # not installed
            words.append(f"{name} missing")
    return ", ".join(words)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ckpt bench ends us
    warnings.filterwarnings("ignore")  # peers' own affairs
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
            elif command == "sizes":
                answer = sizes(words[0], words[1])
            elif command == "zipnn_speed":
                answer = zipnn_speed(words[0], words[1])
            else:
                raise ValueError(f"unknown command {command}")
            print("ok", *answer, flush=True)
        except Exception as problem:  # one answer a command, whatever happens
            print("error", type(problem).__name__, str(problem).replace("\n", " "), flush=True)


main()
