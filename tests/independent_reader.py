#!/usr/bin/env python3
"""Restores checkpoints by docs/format.md alone: shares no code with ckpt, so that the document is known to be enough.

Ends with 0, or 2: wrong usage, 3: damaged or newer data (or failed input or output), 4: no such checkpoint. Needs
libzstd.so.1. SHA-256 finds all damage, so XXH3 is left out, as is what restoring does not need: tensors, classes."""
import argparse, configparser, ctypes, functools, hashlib, io, json, os, pathlib, re, struct, sys
from collections import namedtuple

CHUNK, NO_PACK, NO_HASH, SIZE_T = 1 << 20, 0xffffffff, bytes(32), ctypes.c_size_t
FEATURES = 1 << 0 | 1 << 1 | 1 << 2  # what may be in `features`: context modes, palettes, transforms
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

class Bits:  # the arithmetic coder of side information
    def __init__(self, data):
        self.data, self.at, self.low, self.high = data, 4, 0, 0xffffffff
        self.code = int.from_bytes(data[:4].ljust(4, b"\0"), "big")
    def bit(self, model):  # model is [p, seen]
        span, rate = self.high - self.low, min(model[1] + 1, 5)
        split = self.low + (span >> 16) * model[0] + ((span & 0xffff) * model[0] >> 16)
        bit = self.code <= split
        if bit:
            self.high, model[0] = split, model[0] + (0xffff - model[0] >> rate)
        else:
            self.low, model[0] = split + 1, model[0] - (model[0] >> rate)
        model[1] = rate
        while (self.low ^ self.high) < 1 << 24:
            byte = self.data[self.at] if self.at < len(self.data) else 0
            self.low, self.high = self.low << 8 & 0xffffffff, self.high << 8 & 0xffffffff | 0xff
            self.code, self.at = self.code << 8 & 0xffffffff | byte, self.at + 1
        return int(bit)
    def tree(self, models, bits):
        node = 1
        for _ in range(bits):
            node = 2 * node + self.bit(models[node])
        return node - (1 << bits)
    def step(self, models):
        if self.bit(models[0]):
            return 0
        negative, amount = self.bit(models[1]), 1
        while amount < 255 and not self.bit(models[min(amount + 1, 11)]):
            amount += 1
        return -amount if negative else amount

def models(count): return [[0x8000, 0] for _ in range(count)]
def clamp(x, low, high): return min(max(x, low), high)
def to_float(bits): return struct.unpack("<f", struct.pack("<I", bits))[0] if bits >> 23 & 255 < 192 else 0.0
def rounded(x): return struct.unpack("<f", struct.pack("<f", x))[0]  # a double rounded once more is a float rounded once
def float_bits(x): return struct.unpack("<I", struct.pack("<f", x))[0]

def read_intervals(side, bits):
    flags, history, symbols, pending = models(8), 0, [], [(0, bits)]
    while pending:
        base, size = pending.pop()
        leaf = side.bit(flags[history]) if size else 1
        history = (2 * history + leaf) % 8
        if leaf:
            symbols.append((base, size))
            require(len(symbols) <= 256, "number of symbols")
        else:
            pending += [(base + (1 << size - 1), size - 1), (base, size - 1)]
    return symbols

def read_values(side, count, bits):
    if not side.bit([0x8000, 0]):
        return [0] * count
    tree = models(1 << bits)
    return [side.tree(tree, bits) - (1 << bits - 1) for _ in range(count)]

def read_frequencies(side, table_count, symbol_count):
    occurs, steps, above, tables = models(6), (models(12), models(12)), None, []
    amounts = [0] + [round(16 * 2 ** ((w - 1) / 4)) for w in range(1, 49)]
    for _ in range(table_count):
        weights, last, before = [], 24, 1
        for s in range(symbol_count):
            known = bool(above and above[s])
            before = side.bit(occurs[2 * (above is not None) + 2 * known + before])
            if before:
                expected = last
                if known:
                    expected = int((last + above[s] + (above[s] - above[s - 1] if s and above[s - 1] else 0)) / 2)
                expected = clamp(expected, 1, 48)
                last = clamp(expected + side.step(steps[known]), 1, 48)
            weights.append(last if before else 0)
        total = sum(amounts[w] for w in weights)
        require(total, "an empty table")
        f = [max(amounts[w] * 4096 // total, w > 0) for w in weights]
        while sum(f) != 4096:
            f[f.index(max(f))] += 4096 - sum(f) if sum(f) < 4096 else -1
        tables.append([(s, n, at) for s, n in enumerate(f) for at in range(n)])  # by slot
        above = weights
    return tables

def decode_context(mode, payload, size, reference):
    what, zeros, place_from, sizes, period = struct.unpack("<BBBBH", payload[:6])
    side_size, bits_size = int.from_bytes(payload[6:9], "little"), int.from_bytes(payload[9:12], "little")
    width, number, at, lanes, block = 1 << (what & 3), what >> 2 & 3, 12, 1 << (sizes >> 5), 1 << (sizes & 31)
    turned, places, growth, neighbours = (bool(what & 1 << bit) for bit in (4, 5, 6, 7))
    n, count = 8 * width, size // width
    require(number < 3 and zeros < n and place_from < n and 4 <= lanes <= 32 and block >= 32 and
            period <= min(32768, count) and count >= 1, "head of a context coded chunk")
    require(mode == 8 or number == 0 and places <= neighbours, "a reference without one")
    require(not growth or number == 1 and zeros == 0 and width >= 4, "growth")
    order, plane, planes = range(count), count, 1
    if neighbours:
        require(width == 4 and zeros == 0 and places and number < 2 and turned == (number == 1), "neighbours")
        planes, inner, first = struct.unpack("<BHH", payload[12:17])
        at, group = 17, planes * inner
        require(2 <= planes <= 64 and 1 <= group <= 32768 and first < group and count >= first + group, "grid")
        groups = (count - first) // group
        plane = groups * inner
        order = ([first + (g * planes + p) * inner + c for p in range(planes) for g in range(groups)
                  for c in range(inner)] + list(range(first)) + list(range(first + planes * plane, count)))
    side, bits = Bits(payload[at:at + side_size]), payload[at + side_size:at + side_size + bits_size]
    symbols = read_intervals(side, n - zeros)
    first_place, place = 0, [32]
    if places:
        first_place, place_count, steps, level = side.tree(models(256), 8), side.tree(models(64), 6) + 1, models(12), 32
        place = []
        for _ in range(place_count):
            level = clamp(level + side.step(steps), 0, 63)
            place.append(level)
    begins, table = [0x8000, 0], [0]
    for _ in range(63):
        table.append(table[-1] + side.bit(begins))
    require(table[-1] < 16, "number of tables")
    lags, w, steps = 4 if planes <= 9 else 8, {}, models(12)
    for p in range(1, planes):
        for l in range(1, min(p, lags) + 1):
            w[p, l] = clamp(w.get((p - 1, l), 0) + side.step(steps), -128, 127)
    rows, columns = read_values(side, -(-count // block), 6), read_values(side, period, 6)
    grows = (read_values(side, len(rows), 8), read_values(side, period, 8)) if growth else ([0] * len(rows), [0] * period)
    tables = read_frequencies(side, table[-1] + 1, len(symbols))

    rans = payload[at + side_size + bits_size:len(payload) - size % width]
    require(len(bits) == bits_size and len(rans) >= 4 * lanes and len(rans) % 2 == 0, "parts of a chunk")
    states = list(struct.unpack_from("<%dI" % lanes, rans))
    require(all(0x8000 <= x < 1 << 31 for x in states), "states")
    words = iter(struct.unpack_from("<%dH" % ((len(rans) - 4 * lanes) // 2), rans, 4 * lanes))
    numbers = struct.Struct("<%d%s" % (count, LETTERS[width]))
    references = numbers.unpack(reference()[:count * width]) if mode == 8 else [0] * count
    raw_at, values, elements, mask, top = 0, [], [0] * count, (1 << n) - 1, 1 << n - 1
    high, mantissa = mask >> zeros << zeros, 23 if width == 4 else 52
    def bend(b):
        m = b >> mantissa - 7 & 127
        return m * (128 - m) * 87 << mantissa - 22
    for i, where in enumerate(order):
        row, column = i // block, i % plane % period if period else 0
        y = references[where]
        if growth:
            t = y + ((grows[0][row] + (grows[1][column] if period else 0)) << mantissa - 5) & mask
            y = t + bend(y) - bend(t) & mask
        grown, predicted, p = y, 0.0, i // plane
        if neighbours:
            for l in range(1, min(p, lags) + 1) if p < planes else ():
                predicted = rounded(predicted + rounded(values[i - l * plane] * (w[p, l] / 32)))
            if number == 0:
                y = float_bits(predicted)
            elif 0 < p < planes and y >> 23 & 255 < 192:
                y = float_bits(rounded(to_float(y) + predicted))
        level = place[clamp((y >> place_from & 255) - first_place, 0, len(place) - 1)] if places else place[0]
        level = clamp(level + rows[row] + (columns[column] if period else 0), 0, 63)
        x = states[i % lanes]
        s, f, above = tables[table[level]][x & 0xfff]
        x = f * (x >> 12) + above
        if x < 0x8000:
            x = x << 16 | next(words)
        states[i % lanes] = x
        base, length = symbols[s]
        raw_at += length
        require(raw_at <= 8 * bits_size, "raw bits")
        word = int.from_bytes(bits[raw_at - length >> 3:(raw_at + 7) >> 3], "little")
        v = base + (word >> (raw_at - length) % 8 & (1 << length) - 1)
        if number == 0:
            e = (v ^ (y & top) if neighbours else v >> 1 << zeros | (v & 1) << n - 1 if turned else v << zeros)
        elif number == 2:
            e = v << zeros ^ y & high
        else:
            def to(b): return b if not turned else (b ^ mask if b & top else b ^ top) & high
            d = (~(v >> 1) if v & 1 else v >> 1) << zeros
            o = d + to(y & high) & mask
            e = o if not turned else o ^ top if o & top else (o ^ mask) & high
        elements[where] = e
        if neighbours:
            values.append(rounded(to_float(e) - to_float(grown)) if number else to_float(e))
    require(all(x == 0x8000 for x in states) and next(words, None) is None and (raw_at + 7) // 8 == bits_size,
            "end of a chunk")
    return numbers.pack(*elements) + payload[len(payload) - size % width:]

def decode_chunk(coded, size, reference):  # reference is a function that gives the reference chunk
    mode, payload = coded[0], coded[1:]
    require(mode <= 10 and (mode != 1 or len(payload) in LETTERS and len(payload) <= size), "mode of a chunk, or newer")
    chunk = (payload if mode == 0 else (payload * size)[:size] if mode == 1 else payload + reference() if mode == 2 else
             zstd(payload, size) if mode == 3 else zstd(payload, size, reference()) if mode == 4 else
             decode_palette(payload, size) if mode == 9 else
             decode_context(mode, payload, size, reference) if mode in (8, 10) else decode_planar(mode, payload, size, reference))
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
