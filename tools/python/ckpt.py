"""ckpt: checkpoints from Python, in the background, bit-exact, in a fraction of the space.

    import ckpt

    ckpt.init()                                                      # once: makes .ckpt in the current folder
    ckpt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, step=step)
    ...                                                              # the state may change at once: it was copied
    state = ckpt.load("latest")                                      # after a restart
    model.load_state_dict(state["model"])

One file over libckpt.so by ctypes: nothing to compile, nothing needed but Python 3.8; NumPy and PyTorch only for those
who pass their tensors. The library is the one that CKPT_LIBRARY names, else the one beside this file, else the one that
the system finds. Every failure is a ckpt.Error. docs/python.md is the guide.

How a state is kept: as a safetensors file (state.safetensors) that any program can read. Each tensor is named by its
keys, joined by dots. All that is not a tensor stands in the file's metadata under the key `ckpt.state`: JSON
{"version": 1, "state": NODE}, where NODE is

    null, true, false, "text", integers up to 2**53         themselves
    [NODE ...]                                              a list
    {"int": "0x..."}                                        any larger integer
    {"float": "0x1.8p+1"}                                   float.hex(); of a NaN also the bits: "nan:7ff8000000000001"
    {"complex": [text, text]}                               two floats
    {"tuple": [NODE ...]}
    {"dict": [[KEY, NODE] ...]}                             in their order; likewise "ordered" (an OrderedDict, whose
                                                            attributes follow as "attributes": NODE) and "counter"
    {"scalar": ["float32", "0000c03f"]}                     a NumPy scalar and its bytes
    {"torch": name}, {"numpy": name}                        a tensor of this file; "order": "big" if it was big-endian;
                                                            one at several places (tied weights) is named at each
"""
import atexit
import collections
import collections.abc
import ctypes
import json
import numbers
import os
import struct
import sys
import threading
import warnings

__all__ = ["Error", "Checkpoint", "Restored", "Saved", "WriterStats", "init", "ensure", "save", "load", "wait", "close",
           "log", "find", "restore", "writer_stats"]  # and the numbers of errors below

# ---- Errors ----

USAGE, CONFIRM, DATA, FORMAT, CHANGED, NOTFOUND, NOSTORE, NOSPACE = 20, 21, 30, 31, 32, 40, 41, 50
BUSY, MISSING, VERSION, IO, NOMEMORY, BUG, INTERRUPTED = 80, 90, 91, 100, 101, 700, 1300


class Error(Exception):
    """What every failure raises. `code` is one of <ckpt/error.h> (docs/errors.md), `hint` says what to do or is "",
    `where` is the file or store concerned or "", `errno` that of a failed system call or 0, and `exit_status` what a
    program should end with."""

    def __init__(self, code, message, hint="", where="", errno=0):
        super().__init__(message)
        self.code, self.message, self.hint, self.where, self.errno = code, message, hint, where, errno

    def __reduce__(self):  # so that it can come out of another process
        return Error, (self.code, self.message, self.hint, self.where, self.errno)

    @property
    def exit_status(self):
        return self.code // 10

    def __str__(self):
        where = f" ({self.where})" if self.where and self.where not in self.message else ""
        return self.message + where + (f"\nhint: {self.hint}" if self.hint else "")


# ---- <ckpt/error.h> and <ckpt/store.h>; tests/python/test_layout.py compares them with the headers ----

_RANK_MAX = 16
_ID_SIZE = 65
_STEP_NONE = -1
# ckpt_dtype, by the names that NumPy and PyTorch share.
_DTYPES = {1: "bool", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "uint32", 7: "int32", 8: "uint64", 9: "int64",
           10: "float16", 11: "bfloat16", 12: "float32", 13: "float64", 14: "complex64", 15: "complex128",
           16: "float8_e4m3fn", 17: "float8_e5m2"}
_DTYPE_NUMBERS = {name: number for number, name in _DTYPES.items()}
_NOT_IN_SAFETENSORS = {"complex128"}
_IMPORTANCE = {"ordinary": 0, "best": 1, "keep": 2}
_LEVELS = {"default": 0, "fast": 1, "max": 2}

_text, _size, _u64, _i64 = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int64
_id = ctypes.c_char * _ID_SIZE


def _struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_Error = _struct("ckpt_error", ("code", ctypes.c_int), ("sys_errno", ctypes.c_int), ("where", ctypes.c_char * 120),
                 ("message", ctypes.c_char * 640), ("hint", ctypes.c_char * 256))
_Tensor = _struct("ckpt_tensor", ("name", _text), ("dtype", ctypes.c_int), ("rank", ctypes.c_uint),
                  ("shape", _u64 * _RANK_MAX), ("data", ctypes.c_void_p))
_Value = _struct("ckpt_value", ("key", _text), ("value", _text))
_ProgressFn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _u64, _u64)
_NoteFn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _text)
_ContentFn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_Error))
_OpenOptions = _struct("ckpt_open_options", ("size", _size), ("threads", ctypes.c_uint), ("progress", _ProgressFn),
                       ("note", _NoteFn), ("payload", ctypes.c_void_p), ("warning", _NoteFn))
_SaveOptions = _struct("ckpt_save_options", ("size", _size), ("message", _text), ("step", _i64),
                       ("meta", ctypes.POINTER(_Value)), ("meta_count", _size), ("tag", _text),
                       ("level", ctypes.c_int), ("optimizer_bf16", ctypes.c_bool), ("weights_only", ctypes.c_bool),
                       ("drop", ctypes.POINTER(_text)), ("drop_count", _size), ("from_copy", ctypes.c_bool),
                       ("whole_only", ctypes.c_bool), ("parity", ctypes.c_double),
                       ("expected", ctypes.c_void_p))
_SaveResult = _struct("ckpt_save_result", ("id", _id), ("sequence", _u64), ("files", _u64), ("tensors", _u64),
                      ("raw_bytes", _u64), ("stored_bytes", _u64), ("coded_bytes", _u64), ("shared_bytes", _u64),
                      ("lossy", ctypes.c_char * 512))
_WriterStats = _struct("ckpt_writer_stats", ("submitted", _u64), ("committed", _u64), ("replaced", _u64),
                       ("dropped", _u64), ("failed", _u64), ("blocked_seconds", ctypes.c_double),
                       ("last", _SaveResult), ("pruned_checkpoints", _u64), ("pruned_bytes", _u64),
                       ("raw_bytes", _u64), ("stored_bytes", _u64))
_Info = _struct("ckpt_info", ("id", _id), ("sequence", _u64), ("time", _i64), ("step", _i64), ("files", _u64),
                ("raw_bytes", _u64), ("stored_bytes", _u64), ("message", _text), ("meta_count", _size),
                ("meta", ctypes.POINTER(_Value)), ("tag_count", _size), ("tags", ctypes.POINTER(_text)))
_FileInfo = _struct("ckpt_file_info", ("path", _text), ("kind", ctypes.c_int), ("mode", ctypes.c_uint), ("size", _u64),
                    ("sha256", _id), ("link_target", _text), ("format", _text), ("tensor_first", _size),
                    ("tensor_count", _size), ("level", _text), ("refusal", _text))
_TensorInfo = _struct("ckpt_tensor_info", ("name", _text), ("dtype", ctypes.c_int), ("rank", ctypes.c_uint),
                      ("shape", _u64 * _RANK_MAX), ("stride", _i64 * _RANK_MAX), ("contiguous", ctypes.c_bool),
                      ("file", _size), ("bytes", _u64))
_RestoreOptions = _struct("ckpt_restore_options", ("size", _size), ("dir", _text), ("overwrite", ctypes.c_bool),
                          ("dry_run", ctypes.c_bool), ("only", ctypes.POINTER(_text)), ("only_count", _size))
_RestoreResult = _struct("ckpt_restore_result", ("id", _id), ("files", _u64), ("bytes", _u64),
                         ("unchanged_files", _u64), ("fell_back", ctypes.c_bool))

_object = ctypes.c_void_p  # ckpt_store, ckpt_writer, ckpt_list, ckpt_content
_to = ctypes.POINTER
# Functions that return a code; `ckpt_error *err` is their last argument and left out here.
_CALLS = {
    "ckpt_store_init": [_to(ctypes.c_bool), _text],
    "ckpt_store_open": [_to(_object), _text, _to(_OpenOptions)],
    "ckpt_save_files": [_to(_SaveResult), _object, _to(_text), _size, _to(_SaveOptions)],
    "ckpt_writer_open": [_to(_object), _text, _to(_OpenOptions)],
    "ckpt_writer_submit": [_object, _text, _to(_Tensor), _size, _to(_Value), _size, _to(_SaveOptions), ctypes.c_int],
    "ckpt_writer_wait": [_object],
    "ckpt_writer_close": [_object],
    "ckpt_list_new": [_to(_object), _object],
    "ckpt_find": [_id, _object, _text],
    "ckpt_content_use": [_object, _text, _ContentFn, ctypes.c_void_p],
    "ckpt_content_read": [_object, _object, _size, _u64, _u64],
    "ckpt_restore_files": [_to(_RestoreResult), _object, _text, _to(_RestoreOptions)],
    "ckpt_restore_tensors": [_object, _text, _to(_Tensor), _size],
}
_OTHERS = {
    "ckpt_store_path": (_text, [_object]),
    "ckpt_store_close": (None, [_object]),
    "ckpt_writer_stats_get": (None, [_to(_WriterStats), _object]),
    "ckpt_list_count": (_size, [_object]),
    "ckpt_list_get": (_to(_Info), [_object, _size]),
    "ckpt_list_free": (None, [_object]),
    "ckpt_content_info": (_to(_Info), [_object]),
    "ckpt_content_file_count": (_size, [_object]),
    "ckpt_content_file": (_to(_FileInfo), [_object, _size]),
    "ckpt_content_tensor_count": (_size, [_object]),
    "ckpt_content_tensor": (_to(_TensorInfo), [_object, _size]),
    "ckpt_content_value_count": (_size, [_object, _size]),
    "ckpt_content_value": (ctypes.c_int, [_to(_Value), _object, _size, _size]),
}

# ---- The library ----

_library = None
_lock = threading.RLock()  # of _library and _writers; re-entrant, since a signal handler may save as well
_notes = collections.deque()


@_NoteFn
def _note(_payload, note):  # comes from threads of the library, also from the background
    _notes.append(note.decode("utf-8", "replace"))


def _warn_of_notes():
    while _notes:
        warnings.warn("ckpt: " + _notes.popleft(), RuntimeWarning, stacklevel=3)


def _lib():
    global _library
    with _lock:
        if _library is None:
            _library = _library_open()
        return _library


def _library_open():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libckpt.so")
    given = os.environ.get("CKPT_LIBRARY")
    path = given or (beside if os.path.exists(beside) else "libckpt.so.0")
    try:
        library = ctypes.CDLL(path)
        for name, arguments in _CALLS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = ctypes.c_int, arguments + [ctypes.POINTER(_Error)]
        for name, (result, arguments) in _OTHERS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as why:
        raise Error(MISSING, f"cannot load {path}: {why}",
                    "CKPT_LIBRARY names another file than libckpt.so, or one that lacks something" if given else
                    "install ckpt, set CKPT_LIBRARY to the path of libckpt.so, or put it beside ckpt.py") from None
    return library


def _call(name, *arguments):
    err = _Error()
    if getattr(_lib(), name)(*arguments, ctypes.byref(err)):
        raise Error(err.code, *(text.decode("utf-8", "replace") for text in (err.message, err.hint, err.where)),
                    err.sys_errno)


def _error_fill(err, why):
    err.code, err.sys_errno = why.code, why.errno
    for field in ("message", "hint", "where"):
        setattr(err, field, getattr(why, field).encode("utf-8")[:getattr(_Error, field).size - 1])


def _c_text(text, what):
    """Text for C, which ends at a NUL."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise Error(USAGE, f"{what}: text is wanted, not {type(text)}")
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Error(USAGE, f"{what}: cannot be written as UTF-8") from None
    if b"\0" in encoded:
        raise Error(USAGE, f"{what}: has a character 0 in it")
    return encoded


def _c_path(path, what):
    if path is None:
        return None
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise Error(USAGE, f"{what}: a path is wanted, not {type(path)}") from None
    if b"\0" in encoded:
        raise Error(USAGE, f"{what}: has a character 0 in it")
    return encoded


def _open_options():
    return _OpenOptions(size=ctypes.sizeof(_OpenOptions), note=_note)


class _Handle:
    """An object of the library for the length of a `with`."""

    def __init__(self, opener, closer, *arguments):
        self.pointer, self.closer = _object(), closer
        _call(opener, ctypes.byref(self.pointer), *arguments)

    def __enter__(self):
        return self.pointer

    def __exit__(self, *_):
        getattr(_lib(), self.closer)(self.pointer)


def _store(store):
    return _Handle("ckpt_store_open", "ckpt_store_close", _c_path(store, "store"), ctypes.byref(_open_options()))


# ---- A state taken apart: what stands in the metadata, and the tensors ----

_DEPTH_MAX = 100  # a state nested deeper is taken for one that holds itself
_INT_PLAIN_MAX = 2**53  # every reader of JSON gets these right
_MAPPINGS = {"dict": dict, "ordered": collections.OrderedDict, "counter": collections.Counter}
_MAPPING_TAGS = {kind: tag for tag, kind in _MAPPINGS.items()}
_NAN_BITS = 0x7FF8000000000000  # of float("nan")


class _Index(int):
    """A place in a list or tuple, as against a key of a dict."""


def _where(keys):
    """optimizer.param_groups[0].foo"""
    return "".join(f"[{key}]" if type(key) is _Index else f".{key}" for key in keys).lstrip(".") or "the state"


def _name(keys):
    """The name of a tensor, which may not hold all that a key may: the key itself is kept in the metadata."""
    name = ".".join("".join(c if c.isprintable() else "_" for c in str(key)) for key in keys)
    return name.encode("utf-8")[:4000].decode("utf-8", "ignore")


def _float_text(value):
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return value.hex() if value == value or bits == _NAN_BITS else f"nan:{bits:016x}"


def _float_of(text):
    return struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0] if text[:4] == "nan:" else float.fromhex(text)


def _is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_numpy(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


class _Memory(collections.namedtuple("_Memory", "name dtype shape address owner")):
    """A tensor for C; `owner` keeps the memory alive."""

    def fill(self, tensor):
        tensor.name, tensor.dtype, tensor.rank, tensor.data = self.name, self.dtype, len(self.shape), self.address
        tensor.shape[: len(self.shape)] = self.shape


def _memory(name, value):
    """Of a dense tensor on the CPU in row-major order."""
    address = value.data_ptr() if _is_torch(value) else value.__array_interface__["data"][0]
    return _Memory(name.encode("utf-8"), _DTYPE_NUMBERS[_dtype_name(value)], tuple(value.shape), address, value)


def _dtype_name(value):
    return str(value.dtype)[len("torch."):] if _is_torch(value) else value.dtype.name


def _tensor_array(tensors):
    array = (_Tensor * max(1, len(tensors)))()
    for slot, tensor in zip(array, tensors):
        tensor.fill(slot)
    return array


class _Flattening:
    def __init__(self):
        self.tensors, self.names = [], {"__metadata__", ""}
        self.tied = {}  # what a tensor of the caller is a view of, to its name

    @staticmethod
    def refuse(keys, what, hint=""):
        raise Error(USAGE, f"{_where(keys)}: cannot save {what}", hint)

    def node(self, value, keys):
        kind = type(value)
        if len(keys) > _DEPTH_MAX:
            self.refuse(keys[:5], f"what is nested over {_DEPTH_MAX} deep", "does it hold itself?")
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if abs(value) <= _INT_PLAIN_MAX else {"int": hex(value)}
        if kind is float:
            return {"float": _float_text(value)}
        if kind is complex:
            return {"complex": [_float_text(value.real), _float_text(value.imag)]}
        if kind is list:
            return self.items(value, keys)
        if kind is tuple:
            return {"tuple": self.items(value, keys)}
        if kind in _MAPPING_TAGS:
            return self.mapping(value, keys)
        if _is_torch(value):
            return self.torch_tensor(value, keys)
        if _is_numpy(value):
            return self.numpy_array(value, keys)
        numpy = sys.modules.get("numpy")
        if numpy and isinstance(value, numpy.generic) and value.dtype.name in _DTYPE_NUMBERS:
            return {"scalar": [value.dtype.name, value.tobytes().hex()]}
        return self.refuse(keys, f"a {kind}", "what can be saved: numbers, text, None, lists, tuples, dicts, "
                           "NumPy arrays, PyTorch tensors")

    def items(self, values, keys):
        return [self.node(value, keys + (_Index(i),)) for i, value in enumerate(values)]

    def mapping(self, value, keys):
        for key in value:
            if key is not None and type(key) not in (str, int, float, bool):
                self.refuse(keys, f"a key of {type(key)}")
        node = {_MAPPING_TAGS[type(value)]: [[self.node(k, keys), self.node(v, keys + (k,))] for k, v in value.items()]}
        if getattr(value, "__dict__", None):  # `_metadata` of a module's state_dict
            node["attributes"] = self.node(vars(value), keys + ("__dict__",))
        return node

    def torch_tensor(self, value, keys):
        torch = sys.modules["torch"]
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            self.refuse(keys, f"a {type(value)}")
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            self.refuse(keys, f"a tensor that is sparse, quantized or without data ({value.layout}, {value.device})")
        self.check(value, keys)
        view = value.device, value.data_ptr(), value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg()
        plain = value.detach()
        return {"torch": self.add(keys, value, view, lambda: plain.resolve_conj().resolve_neg().cpu().contiguous())}

    def numpy_array(self, value, keys):
        numpy = sys.modules["numpy"]
        if type(value) not in (numpy.ndarray, numpy.memmap):
            self.refuse(keys, f"a {type(value)}")
        self.check(value, keys)
        view = "numpy", value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
        native = value.dtype.isnative
        dtype = value.dtype if native else value.dtype.newbyteorder("=")
        name = self.add(keys, value, view, lambda: numpy.asarray(value, dtype, order="C"))
        return {"numpy": name} if native else {"numpy": name, "order": "big"}

    def check(self, value, keys):
        dtype = _dtype_name(value)
        if dtype not in _DTYPE_NUMBERS or dtype in _NOT_IN_SAFETENSORS:
            self.refuse(keys, f"elements of {dtype}: safetensors has no such type")
        if len(value.shape) > _RANK_MAX:
            self.refuse(keys, f"a tensor of over {_RANK_MAX} dimensions")

    def add(self, keys, value, view, dense):
        if 0 not in value.shape and view in self.tied:
            return self.tied[view]
        name, tries = _name(keys), 1
        while name in self.names:
            tries += 1
            name = f"{_name(keys)}#{tries}"
        self.names.add(name)
        self.tied[view] = name
        self.tensors.append(_memory(name, dense()))
        return name


# ---- ... and put together again ----


def _tensors_of(tree, keys=()):
    """Keys and tensors of a nest of dicts, lists and tuples."""
    if _is_torch(tree) or _is_numpy(tree):
        yield keys, tree
    elif isinstance(tree, collections.abc.Mapping):
        for key, value in tree.items():
            yield from _tensors_of(value, keys + (key,))
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from _tensors_of(value, keys + (_Index(i),))


def _import(name):
    try:
        return __import__(name)
    except ImportError as why:
        other = {"torch": "numpy", "numpy": "torch"}[name]
        raise Error(MISSING, f"the tensors are to be those of {name}, which cannot be imported: {why}",
                    f"install it, or load with framework=\"{other}\"") from None


def _torch_empty(shape, dtype, where):
    torch = _import("torch")
    if not hasattr(torch, dtype):
        raise Error(MISSING, f"{where}: this PyTorch has no {dtype}", "use a newer one, or framework=\"numpy\"")
    return torch.empty(shape, dtype=getattr(torch, dtype))


def _numpy_dtype(dtype, where):
    numpy = _import("numpy")
    try:
        if dtype != "bool" and not hasattr(numpy, dtype):
            __import__("ml_dtypes")  # gives NumPy these types
        return numpy.dtype(dtype)
    except (ImportError, TypeError):
        raise Error(MISSING, f"{where}: NumPy has no {dtype}",
                    "install ml_dtypes, or load with framework=\"torch\"") from None


class _Building:
    def __init__(self, tensors, wanted, framework):
        self.tensors = tensors  # name to (number, dtype, shape)
        self.wanted = wanted  # keys to a tensor of the caller
        self.framework = framework
        self.targets = []  # (number of the tensor, _Memory)
        self.after = []  # what to do when the bytes are there
        self.made = {}  # by name, so that what was tied is tied again

    def node(self, value, keys=()):
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is list:
            return [self.node(item, keys + (_Index(i),)) for i, item in enumerate(value)]
        tag, given = next(iter(value.items()))
        if tag == "int":
            return int(given, 16)
        if tag == "float":
            return _float_of(given)
        if tag == "complex":
            return complex(*map(_float_of, given))
        if tag == "scalar":
            return _import("numpy").frombuffer(bytes.fromhex(given[1]), _numpy_dtype(given[0], _where(keys)))[0]
        if tag == "tuple":
            return tuple(self.node(given, keys))
        if tag in ("torch", "numpy"):
            return self.tensor(given, keys, tag, value.get("order") == "big")
        mapping = _MAPPINGS[tag]()
        for key, item in given:
            key = self.node(key)
            mapping[key] = self.node(item, keys + (key,))
        if "attributes" in value:
            vars(mapping).update(self.node(value["attributes"], keys + ("__dict__",)))
        return mapping

    def tensor(self, name, keys, saved_as, big_endian=False):
        number, dtype, shape = self.tensors[name]
        where, wanted = _where(keys), self.wanted.pop(keys, None)
        if wanted is not None:
            self.into(number, name, wanted, dtype, shape, where)
            return wanted
        if name in self.made:
            return self.made[name]
        if (self.framework or saved_as) == "torch":
            made = _torch_empty(shape, dtype, where)
        else:
            made = _import("numpy").empty(shape, _numpy_dtype(dtype, where))
        self.targets.append((number, _memory(name, made)))
        self.made[name] = made
        if big_endian and not _is_torch(made):
            self.after.append(lambda: made.byteswap(inplace=True))
            self.made[name] = made.view(made.dtype.newbyteorder(">"))
        return self.made[name]

    def into(self, number, name, wanted, dtype, shape, where):
        if (_dtype_name(wanted), tuple(wanted.shape)) != (dtype, shape):
            raise Error(USAGE, f"{where}: the checkpoint has {dtype} {list(shape)}, "
                        f"`into` has {_dtype_name(wanted)} {list(wanted.shape)}")
        if _is_torch(wanted):
            target = wanted.detach()
            plain = target.device.type == "cpu" and not target.is_conj() and not target.is_neg()
            if not plain or not target.is_contiguous():
                target, final = _torch_empty(shape, dtype, where), target
                self.after.append(lambda: final.copy_(target))
        else:
            if not wanted.flags.writeable:
                raise Error(USAGE, f"{where}: `into` has an array that cannot be written")
            target = wanted
            if not (wanted.flags.c_contiguous and wanted.dtype.isnative):
                target = _import("numpy").empty(shape, wanted.dtype.newbyteorder("="))
                self.after.append(lambda: wanted.__setitem__(..., target))
        self.targets.append((number, _memory(name, target)))


# ---- What calls give back ----

Saved = collections.namedtuple("Saved", "id sequence files tensors raw_bytes stored_bytes coded_bytes shared_bytes lossy")
Restored = collections.namedtuple("Restored", "id files bytes unchanged_files fell_back")
WriterStats = collections.namedtuple("WriterStats", "submitted committed replaced dropped failed blocked_seconds last")
Checkpoint = collections.namedtuple(
    "Checkpoint", "id sequence time step files raw_bytes stored_bytes message meta tags")


def _of(kind, struct_):
    values = (getattr(struct_, field) for field in kind._fields)
    return kind(*(value.decode("utf-8") if isinstance(value, bytes) else value for value in values))


# ---- Saving ----

_writers = {}  # path of a store to its background writer


def _forget():  # in the child of a fork: the writers' threads are not in it
    global _lock
    _lock = threading.RLock()
    _writers.clear()


os.register_at_fork(after_in_child=_forget)


def _writer(store):
    with _store(store) as handle:
        path = _lib().ckpt_store_path(handle)
    if path not in _writers:
        made = _object()
        _call("ckpt_writer_open", ctypes.byref(made), path, ctypes.byref(_open_options()))
        if _writers.setdefault(path, made) is not made:  # a signal handler was here in between
            _call("ckpt_writer_close", made)
    return _writers[path]


def _writer_stats(writer):
    stats = _WriterStats()
    _lib().ckpt_writer_stats_get(ctypes.byref(stats), writer)
    last = _of(Saved, stats.last) if stats.committed else None
    return _of(WriterStats, stats)._replace(last=last)


def _meta_text(key, value):
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return value  # text, or refused as anything else


def _save_options(step, message, meta, tag, level, optimizer):
    if optimizer not in (None, "bf16"):
        raise Error(USAGE, f"optimizer {optimizer!r}: 'bf16' or None is wanted")
    if level not in _LEVELS:
        raise Error(USAGE, f"level {level!r}: one of {', '.join(_LEVELS)} is wanted")
    if step is not None and (not isinstance(step, numbers.Integral) or not 0 <= step < 2**63):
        raise Error(USAGE, f"step {step!r}: a count is wanted")
    meta = dict(meta or {})
    pairs = (_Value * max(1, len(meta)))()
    for slot, (key, value) in zip(pairs, meta.items()):
        slot.key, slot.value = _c_text(key, "meta"), _c_text(_meta_text(key, value), f"meta {key}")
    return _SaveOptions(ctypes.sizeof(_SaveOptions), _c_text(message, "message"),
                        _STEP_NONE if step is None else int(step), pairs, len(meta), _c_text(tag, "tag"),
                        _LEVELS[level], optimizer is not None)


def _paths_of(what):
    """The paths that are to be saved, or None."""
    if isinstance(what, (str, os.PathLike)):
        return [what]
    if isinstance(what, (list, tuple)) and what and all(isinstance(path, (str, os.PathLike)) for path in what):
        return what
    return None


def save(state_dict_or_paths, step=None, store=None, message=None, meta=None, tag=None, importance="ordinary",
         wait=False, name="state.safetensors", level="default", optimizer=None):
    """Saves a state or files as a checkpoint.

    A dict of tensors, NumPy arrays, numbers, text, bools, None, and dicts, lists and tuples of these is copied, and
    written in the background: the call returns None as soon as the copy is made. Anything else in it is refused by its
    place. One save is written while one waits; a newer one replaces the waiting one, unless that is more important:
    "ordinary" saves may be replaced, "best" by a newer best only, "keep" and tagged ones never. `wait=True` returns a
    Saved when the checkpoint is durable, and is never replaced. A failure in the background is raised by the next call
    of save, wait or close, and printed at exit if there is none.

    A path or a list of paths is saved at once, byte for byte, and a Saved returned.

    `store` is a folder with a .ckpt in it, as by `ckpt -s`; `meta` a dict of text and numbers (`{"val_acc": 0.93}`);
    `name` that of the file in the checkpoint; `level` is "fast", "default" or "max": little time, or few bytes.
    `optimizer="bf16"` is lossy: float32 tensors under a key that begins with `optim` are rounded to bfloat16; the
    Saved and `ckpt show` tell by how much."""
    options = _save_options(step, message, meta, tag, level, optimizer)
    if importance not in _IMPORTANCE:
        raise Error(USAGE, f"importance {importance!r}: one of {', '.join(_IMPORTANCE)} is wanted")
    paths = _paths_of(state_dict_or_paths)
    if paths:
        saved = _save_files(paths, store, options)
    elif type(state_dict_or_paths) in _MAPPING_TAGS:
        important = "keep" if tag is not None or wait else importance
        saved = _save_state(state_dict_or_paths, store, options, _c_text(name, "name"), _IMPORTANCE[important], wait)
    else:
        raise Error(USAGE, f"a dict, a path or a list of paths is saved, not a {type(state_dict_or_paths)}")
    _warn_of_notes()
    return saved


def _save_files(paths, store, options):
    saved = _SaveResult()
    encoded = (_text * len(paths))(*(_c_path(path, "path") for path in paths))
    with _store(store) as handle:
        _call("ckpt_save_files", ctypes.byref(saved), handle, encoded, len(paths), ctypes.byref(options))
    return _of(Saved, saved)


def _save_state(state, store, options, name, importance, wait_for_it):
    flat = _Flattening()
    text = json.dumps({"version": 1, "state": flat.node(state, ())}, separators=(",", ":"), allow_nan=False)
    values = (_Value * 1)(_Value(b"ckpt.state", text.encode("ascii")))
    tensors = _tensor_array(flat.tensors)
    with _lock:
        writer = _writer(store)
        _call("ckpt_writer_submit", writer, name, tensors, len(flat.tensors), values, 1, ctypes.byref(options),
              importance)
        if wait_for_it:
            _call("ckpt_writer_wait", writer)
            return _writer_stats(writer).last
    return None


def _each_writer(function, writers):
    failures = []
    for writer in writers:
        try:
            _call(function, writer)
        except Error as why:
            failures.append(why)
    _warn_of_notes()
    for why, other in zip(failures, failures[1:]):
        why.__cause__ = other
    if failures:
        raise failures[0]


def wait():
    """Returns when nothing is being saved in the background any more; raises what failed there."""
    with _lock:
        _each_writer("ckpt_writer_wait", list(_writers.values()))


def close():
    """Waits as wait() does and ends the background; called at exit. A later save begins anew."""
    with _lock:
        writers = list(_writers.values())
        _writers.clear()
        _each_writer("ckpt_writer_close", writers)


@atexit.register
def _close_at_exit():
    try:
        close()
    except Error as why:
        while why:
            print(f"ckpt: {why}", file=sys.stderr)
            why = why.__cause__


def writer_stats(store=None):
    """What the background has done for a store since its first save or the last close()."""
    with _lock:
        with _store(store) as handle:
            writer = _writers.get(_lib().ckpt_store_path(handle))
        return _writer_stats(writer) if writer else WriterStats(0, 0, 0, 0, 0, 0.0, None)


# ---- Loading ----


def load(name="latest", store=None, framework=None, into=None, file=None):
    """Gives a saved state back: the same nest of the same types in the same order, each tensor bit for bit, on the CPU.

    `name` is a tag, "latest", "best", "step:1500" or the beginning of an id, each with ~N for N before it. `framework`
    ("torch", "numpy") makes all tensors those of one library; without it they are what they were. Tensors that `into`,
    a state of the same nesting, has at the same places are not made but filled, and are in what is returned; they must
    have the same dtype and shape, and after an Error anything may be in them.

    When the newest checkpoint is damaged, "latest" gives the newest good one, and a RuntimeWarning that names it.

    Of a file that save(dict) did not write (.pt, .safetensors, .npy, .npz) the tensors are given by name in a flat
    dict. `file` is the path of one file, for a checkpoint of several."""
    if framework not in (None, "torch", "numpy"):
        raise Error(USAGE, f"framework {framework!r}: \"torch\", \"numpy\" or None is wanted")
    states, raised = [], []

    @_ContentFn
    def use(_payload, content, err):  # once, or for "latest" again with older checkpoints while they are damaged
        try:
            states.append(_load(handle, content, framework, into, file))
            return 0
        except Error as why:
            _error_fill(err.contents, why)
            return why.code
        except BaseException as why:  # C knows nothing of it
            raised.append(why)
            _error_fill(err.contents, Error(BUG, "a Python exception"))
            return BUG

    with _store(store) as handle:
        try:
            _call("ckpt_content_use", handle, _c_text(name, "name"), use, None)
        except Error:
            if raised:
                raise raised[0] from None
            raise
    _warn_of_notes()
    return states[-1]


def _chosen_file(content, wanted):
    lib = _lib()
    files = [(i, lib.ckpt_content_file(content, i).contents) for i in range(lib.ckpt_content_file_count(content))]
    found = [(i, f) for i, f in files if wanted is None and f.tensor_count or f.path == _c_path(wanted, "file")]
    if wanted is None and not found:  # a state without a tensor
        found = [(i, f) for i, f in files if _state_text(content, i) is not None]
    if len(found) == 1:
        return found[0]
    names = ", ".join(os.fsdecode(f.path) for _, f in (found or files)[:8])
    if found:
        raise Error(USAGE, "several files of this checkpoint have tensors", f"file= chooses one: {names}")
    raise Error(NOTFOUND, f"no file {wanted}" if wanted else "no file of this checkpoint has tensors",
                f"it has: {names}")


def _state_text(content, file):
    value = _Value()
    for i in range(_lib().ckpt_content_value_count(content, file)):
        if _lib().ckpt_content_value(ctypes.byref(value), content, file, i) == 0 and value.key == b"ckpt.state":
            return value.value.decode("utf-8")
    return None


def _can_import(name):
    try:
        return bool(__import__(name))
    except ImportError:
        return False


def _flat_node(info, names):
    array = info.format in (b"npy", b"npz") or not _can_import("torch")
    return {"dict": [[name, {"numpy" if array else "torch": name}] for name in names]}


def _load(handle, content, framework, into, file):
    lib = _lib()
    number, info = _chosen_file(content, file)
    infos = [lib.ckpt_content_tensor(content, i).contents for i in range(lib.ckpt_content_tensor_count(content))]
    own = range(info.tensor_first, info.tensor_first + info.tensor_count)
    tensors = {infos[i].name.decode("utf-8"): (i, _DTYPES[infos[i].dtype], tuple(infos[i].shape[: infos[i].rank]))
               for i in own}
    wanted = dict(_tensors_of(into)) if into is not None else {}
    text = _state_text(content, number)
    if text is None:
        wanted = {(_name(keys),): tensor for keys, tensor in wanted.items()}
    building = _Building(tensors, wanted, framework)
    try:
        tree = json.loads(text) if text else {"version": 1, "state": _flat_node(info, tensors)}
        if tree["version"] > 1:
            raise Error(VERSION, "the state was saved by a newer version of ckpt.py", "use that version")
        state = building.node(tree["state"])
    except (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError) as why:
        raise Error(FORMAT, f"{os.fsdecode(info.path)}: ckpt.state of its metadata makes no sense: {why!r}") from why
    if building.wanted:
        raise Error(NOTFOUND, f"the checkpoint has no tensor {_where(next(iter(building.wanted)))}, which `into` has")
    _read(handle, content, building.targets, infos)
    for finish in building.after:
        finish()
    return state


def _read(handle, content, targets, infos):
    names = collections.Counter(info.name for info in infos)
    if all(names[memory.name] == 1 for _, memory in targets):  # in parallel, straight to where they belong
        memories = [memory for _, memory in targets]
        id_ = _lib().ckpt_content_info(content).contents.id
        _call("ckpt_restore_tensors", handle, id_, _tensor_array(memories), len(memories))
        return
    for i, memory in targets:
        elements = 1
        for dimension in memory.shape:
            elements *= dimension
        _call("ckpt_content_read", memory.address, content, i, 0, elements)


# ---- The rest ----


def init(dir="."):
    """Makes a store, `dir`/.ckpt; one that is there is left as it is. Returns whether it is new."""
    existed = ctypes.c_bool()
    _call("ckpt_store_init", ctypes.byref(existed), _c_path(dir, "dir"))
    return not existed.value


def ensure(store=None):
    """Makes a store, at `store` or here, unless save(store=store) would find one."""
    try:
        with _store(store):
            pass
    except Error as why:
        if why.code != NOSTORE:
            raise
        init(store or ".")


def log(store=None):
    """All checkpoints, newest first, as Checkpoint tuples; `step` is None where none was given."""
    lib = _lib()
    with _store(store) as handle, _Handle("ckpt_list_new", "ckpt_list_free", handle) as rows:
        found = [_checkpoint(lib.ckpt_list_get(rows, i).contents) for i in range(lib.ckpt_list_count(rows))]
    _warn_of_notes()
    return found


def _checkpoint(info):
    meta = {pair.key.decode("utf-8"): pair.value.decode("utf-8") for pair in info.meta[: info.meta_count]}
    tags = [tag.decode("utf-8") for tag in info.tags[: info.tag_count]]
    fields = {field: getattr(info, field) for field in Checkpoint._fields}
    fields.update(id=info.id.decode(), message=info.message.decode("utf-8"), meta=meta, tags=tags,
                  step=None if info.step == _STEP_NONE else info.step)
    return Checkpoint(**fields)


def find(name, store=None):
    """The id of a checkpoint."""
    found = _id()
    with _store(store) as handle:
        _call("ckpt_find", found, handle, _c_text(name, "name"))
    return found.value.decode("ascii")


def restore(name="latest", out=None, store=None, overwrite=False):
    """Writes the files of a checkpoint below the folder `out`, or to their saved places below the current one. Without
    `overwrite` a file that is there and differs is an Error, before anything is written."""
    restored = _RestoreResult()
    options = _RestoreOptions(ctypes.sizeof(_RestoreOptions), _c_path(out, "out"), overwrite, False)
    with _store(store) as handle:
        _call("ckpt_restore_files", ctypes.byref(restored), handle, _c_text(name, "name"), ctypes.byref(options))
    _warn_of_notes()
    return _of(Restored, restored)
