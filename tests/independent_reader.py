#!/usr/bin/env python3
"""Restores checkpoints by docs/format.md alone: shares no code with ckpt, so that the document is known to be enough.

Ends with 0, or 2: wrong usage, 3: damaged or newer data (or failed input or output), 4: no such checkpoint. Needs
libzstd.so.1. SHA-256 finds all damage, so XXH3 is left out, as is what restoring does not need: tensors, classes."""
import argparse, configparser, ctypes, functools, hashlib, io, json, os, pathlib, re, struct, sys
from collections import namedtuple

CHUNK, NO_PACK, NO_HASH, SIZE_T = 1 << 20, 0xffffffff, bytes(32), ctypes.c_size_t
FEATURES = 1 << 1 | 1 << 2  # what may be in `features`: palettes, transforms
LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of the module struct, for elements of so many bytes
ROWS = {"packs": ("<32s", 2**20), "frames": ("<QQIII5xBxBx3s32s32s", 2**22), "chunks": ("<IQ", 2**25),
        "files": ("<IIIHBBQII16x32s", 2**20), "extents": ("<QQII16x", 2**24), "tensors": ("<32x", 2**22),
        "values": ("<8x", 2**20), "dims": ("<8x", 2**26), "strings": ("<x", 2**29)}  # each with the limit of its count
Frame = namedtuple("Frame", "offset size chunk_first reference_pack reference_frame depth transform zero sha256 "
                            "reference_sha256")
File = namedtuple("File", "path link format mode kind zero size extent_first extent_count sha256")
Extent = namedtuple("Extent", "size frame_offset pack frame")
ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_createDCtx.restype, ZSTD.ZSTD_decompressDCtx.restype = ctypes.c_void_p, SIZE_T

def require(condition, what):
    if not condition:
        raise ValueError(what)

def zstd(frame, size, prefix=b""):
    require(frame[:4] == b"\x28\xb5\x2f\xfd" and
            ZSTD.ZSTD_findFrameCompressedSize(frame, SIZE_T(len(frame))) == len(frame), "not exactly one zstd frame")
    context, out = ctypes.c_void_p(ZSTD.ZSTD_createDCtx()), ctypes.create_string_buffer(size)
    ZSTD.ZSTD_DCtx_refPrefix(context, prefix, SIZE_T(len(prefix)))
    decoded = ZSTD.ZSTD_decompressDCtx(context, out, SIZE_T(size), frame, SIZE_T(len(frame)))
    ZSTD.ZSTD_freeDCtx(context)
    require(decoded == size, "a zstd frame does not decode to its size")
    return out.raw

def read_plane(stream, count):
    coding = stream.read(1)[0]
    require(coding <= 2, "coding of a byte plane")
    return (stream.read(count) if coding == 0 else stream.read(1) * count if coding == 1 else
            zstd(stream.read(int.from_bytes(stream.read(3), "little")), count))

def decode_palette(payload, size):
    stream, (width, last) = io.BytesIO(payload[2:]), payload[:2]
    require(width in LETTERS, "width of a palette")
    count, bits = size // width, min(b for b in (1, 2, 4, 8) if last < 1 << b)
    elements = [stream.read(width) for _ in range(last + 1)]
    plane = read_plane(stream, (count * bits + 7) // 8)
    return b"".join(elements[plane[i * bits // 8] >> i * bits % 8 & ((1 << bits) - 1)]
                    for i in range(count)) + stream.read()  # the tail

def decode_planar(mode, payload, size, reference):
    stream, (width, flags) = io.BytesIO(payload[2:]), payload[:2]
    n, rotate, ordered = 8 * width, flags & 63, flags & 64
    require(width in LETTERS and rotate < n and flags < 128, "width or flags of byte planes")
    count, top, mask = size // width, 1 << (n - 1), (1 << n) - 1
    planes, numbers = bytearray(count * width), struct.Struct("<%d%s" % (count, LETTERS[width]))
    for p in range(width):
        planes[p::width] = read_plane(stream, count)
    v = [(r >> rotate | r << (n - rotate)) & mask for r in numbers.unpack(planes)]
    y = numbers.unpack(reference()[:count * width]) if mode != 5 else ()
    def to(b): return b if not ordered else b ^ mask if b & top else b ^ top
    def from_(o): return o if not ordered else o ^ top if o & top else o ^ mask
    def unzigzag(z): return mask - (z >> 1) if z & 1 else z >> 1
    x = (v if mode == 5 else [a ^ b for a, b in zip(v, y)] if mode == 7 else
         [from_((unzigzag(a) + to(b)) & mask) for a, b in zip(v, y)])
    return numbers.pack(*x) + stream.read()  # the tail

def decode_chunk(coded, size, reference):  # reference is a function that gives the reference chunk
    mode, payload = coded[0], coded[1:]
    require((mode <= 7 or mode == 9) and (mode != 1 or len(payload) in LETTERS and len(payload) <= size), "mode of a chunk, or newer")
    chunk = (payload if mode == 0 else (payload * size)[:size] if mode == 1 else payload + reference() if mode == 2 else
             zstd(payload, size) if mode == 3 else zstd(payload, size, reference()) if mode == 4 else
             decode_palette(payload, size) if mode == 9 else decode_planar(mode, payload, size, reference))
    require(len(chunk) == size, "size of a chunk")
    return chunk

@functools.lru_cache(maxsize=32)
def decode_frame(pack, number):
    frame, decoded, offset = pack.frames[number], bytearray(), pack.frames[number].offset
    def reference():  # the chunk of the reference frame that begins where decoded ends
        return pack.reference(frame)[len(decoded):len(decoded) + size].ljust(size, b"\0")
    for coded_size, _ in pack.chunks_of(frame):
        size = min(CHUNK, frame.size - len(decoded))
        decoded += decode_chunk(pack.data[offset:offset + coded_size], size, reference)
        offset += coded_size
    require(hashlib.sha256(decoded).digest() == frame.sha256, "SHA-256 of a frame")
    return bytes(decoded)

@functools.lru_cache(maxsize=None)
class Pack:
    def __init__(self, store, digits):
        self.store, self.data = store, (store / "packs" / (digits + ".pack")).read_bytes()
        require(hashlib.sha256(self.data).hexdigest() == digits, "SHA-256 of pack " + digits)
        require(self.data[:16] == b"CKPTPACK\1\0\x14\0\0\0\0\0", "header of a pack, or newer")
        self.index_offset, coded_size, size, _, pack_size, magic = struct.unpack("<QQQQQ8s", self.data[-48:])
        require(magic == b"CKPTFOOT" and self.index_offset >= 16 and coded_size <= 1077936128 and size <= 1 << 30 and
                self.index_offset + coded_size + 48 == pack_size == len(self.data), "footer of a pack")
        self.read_tables(zstd(self.data[self.index_offset:-48], size))
        self.check_tables()
    def read_tables(self, tables):
        magic, version, features, *counts, zero = struct.unpack("<4s11I16s", tables[:64])
        require((magic, version, features & ~FEATURES, zero) == (b"CKIX", 1, 0, bytes(16)), "head of tables, or newer")
        require(all(count <= limit for count, (_, limit) in zip(counts, ROWS.values())), "counts of tables")
        sizes = {name: count * struct.calcsize(row) for count, (name, (row, _)) in zip(counts, ROWS.items())}
        require(64 + sum(sizes.values()) == len(tables), "size of tables")
        stream, strings = io.BytesIO(tables[64:]), tables[len(tables) - sizes["strings"]:]
        require(strings[:1] == strings[-1:] == b"\0", "strings of tables")
        def rows(name): return struct.iter_unpack(ROWS[name][0], stream.read(sizes[name]))
        def string(offset): return strings[offset:strings.index(0, offset)]
        self.packs, self.frames = [row[0].hex() for row in rows("packs")], [Frame(*row) for row in rows("frames")]
        self.chunks = list(rows("chunks"))
        self.files = [File(*map(string, row[:3]), *row[3:]) for row in rows("files")]
        self.extents = [Extent(*row) for row in rows("extents")]
    def check_tables(self):
        require(all(1 <= coded_size <= 1049640 for coded_size, _ in self.chunks), "row of a chunk")
        require(sum(-(-f.size // CHUNK) for f in self.frames) <= len(self.chunks), "chunks of frames")
        for number, f in enumerate(self.frames):
            require(1 <= f.size <= 1 << 26 and f.chunk_first + -(-f.size // CHUNK) <= len(self.chunks) and
                    16 <= f.offset <= self.index_offset - sum(coded_size for coded_size, _ in self.chunks_of(f)) and
                    f.transform <= 1 and f.zero == bytes(3), "row of a frame, or newer")
            none = (f.reference_pack, f.reference_frame, f.depth, f.reference_sha256) == (NO_PACK, 0, 0, NO_HASH)
            require(none or f.reference_pack <= len(self.packs) and 1 <= f.depth <= 8 and
                    (f.reference_pack > 0 or f.reference_frame < number), "reference of a frame")
        require(len({f.path for f in self.files}) == len(self.files), "a path that stands twice")
        require(sum(f.extent_count for f in self.files) == len(self.extents), "extents of files")
        leaves = {f.path for f in self.files if f.kind != 1}
        for f in self.files:
            parts = f.path.split(b"/")
            require(len(f.path) <= 4095 and not {b"", b".", b".."} & set(parts) and
                    not any(b"/".join(parts[:i]) in leaves for i in range(1, len(parts))), "path of a file")
            require(f.kind <= 2 and f.mode <= 0o7777 and f.zero == 0 and (f.kind == 2) == (f.link != b"") and
                    f.size == sum(e.size for e in self.extents_of(f)), "row of a file")
            require(f.kind == 0 or (f.sha256, f.size, f.format) == (NO_HASH, 0, b""), "row of a folder or link")
        require([e for f in self.files for e in self.extents_of(f)] == self.extents, "order of extents")
        require(all(e.size and e.pack <= len(self.packs) for e in self.extents), "row of an extent")
    def chunks_of(self, frame):
        return self.chunks[frame.chunk_first:frame.chunk_first + -(-frame.size // CHUNK)]
    def extents_of(self, file):
        return self.extents[file.extent_first:file.extent_first + file.extent_count]
    def pack(self, number):
        return Pack(self.store, self.packs[number - 1]) if number else self
    def reference(self, frame):
        require(frame.reference_pack != NO_PACK, "a mode that needs a reference, in a frame without")
        pack = self.pack(frame.reference_pack)
        row = pack.frames[frame.reference_frame]
        require(row.sha256 == frame.reference_sha256 and row.depth < frame.depth, "reference to another frame")
        return decode_frame(pack, frame.reference_frame)
    def tree(self):
        records = (b"%c %o %d %s %s\0%s\0" % (b"FDL"[f.kind], f.mode, f.size, f.sha256.hex().encode(), f.link, f.path)
                   for f in sorted(self.files))
        return hashlib.sha256(b"".join(records)).hexdigest()
    def content(self, file):
        data = b"".join(decode_frame(self.pack(e.pack), e.frame)[e.frame_offset:e.frame_offset + e.size]
                        for e in self.extents_of(file))
        require(len(data) == file.size and hashlib.sha256(data).digest() == file.sha256, "size or SHA-256 of a file")
        return data

def check_config(text):
    config = configparser.RawConfigParser(strict=False, delimiters="=", inline_comment_prefixes="#")
    config.optionxform = str  # keys as they are written
    config.read_string("[before]\n" + "\n".join(line.strip() for line in text.split("\n")))
    version, incompatible = (config.get("store", key, fallback="").strip('", ') for key in ("version", "incompatible"))
    require(int(version) == 1 and not incompatible, "newer: version or features of the store")

def open_checkpoint(store, name):
    def unique(pairs):
        require(len(dict(pairs)) == len(pairs), "a key twice in a snapshot")
        return dict(pairs)
    text = (store / "snapshots" / name).read_bytes()
    snapshot = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    content, digits = snapshot["content"], snapshot["data"]["pack"]
    require(len(text) <= 4096 and snapshot["ckpt"] == 1 and re.fullmatch("[0-9a-f]{64}", digits), "snapshot, or newer")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    require("%08d-%s.json" % (content["sequence"], hashlib.sha256(canonical).hexdigest()) == name, "name of a snapshot")
    own = Pack(store, digits)
    require((content["tree"], content["files"], content["raw_bytes"]) ==
            (own.tree(), len(own.files), sum(f.size for f in own.files)), "tree of a snapshot")
    return own

def restore(own, out):
    out.mkdir(parents=True)
    targets = [(f, out / os.fsdecode(f.path)) for f in sorted(own.files)]
    for f, target in targets:
        (target if f.kind == 1 else target.parent).mkdir(parents=True, exist_ok=True)
        if f.kind == 2:
            target.symlink_to(os.fsdecode(f.link))
        elif f.kind == 0:
            target.write_bytes(own.content(f))
    for f, target in reversed(targets):
        if f.kind != 2:
            target.chmod(f.mode & 0o777)

def main():
    parser = argparse.ArgumentParser(description="Restores checkpoints of STORE into the new folder OUT.")
    parser.add_argument("--all", action="store_true", help="restore each checkpoint into OUT/<id>")
    parser.add_argument("store", type=pathlib.Path, help="a .ckpt folder")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("id_prefix", nargs="?", default="", help="of one checkpoint; else the newest is restored")
    options = parser.parse_args()
    names = sorted(name for name in os.listdir(options.store / "snapshots")
                   if re.fullmatch("[0-9]{8}-[0-9a-f]{64}[.]json", name) and name[9:].startswith(options.id_prefix))
    status = 0 if names else 4
    for name in names if options.all else names[-1:]:
        try:
            check_config((options.store / "config.ini").read_text("latin-1"))
            restore(open_checkpoint(options.store, name), options.out / (name[9:73] if options.all else ""))
        except (ValueError, LookupError, TypeError, OSError, struct.error, configparser.Error, RecursionError) as error:
            print("independent_reader: %s is refused: %s" % (name, " ".join(str(error).split())), file=sys.stderr)
            status = 3
    return status

if __name__ == "__main__":
    sys.exit(main())
