#!/usr/bin/env python3
"""docs/format.md is enough to read a store: its examples, the golden store and fresh stores, by independent_reader.py.

Run by ctest with CKPT=the program; every golden/store-* must also stay readable to that. See golden/README.md.
"""
import hashlib, json, os, random, shutil, stat, struct, subprocess, sys, tempfile, unittest
from pathlib import Path

sys.dont_write_bytecode = True
import independent_parity as parity
import independent_reader as reader

TESTS = Path(__file__).resolve().parent
GOLDEN = TESTS / "golden"
STORE_V1 = GOLDEN / "store-v1" / ".ckpt"
CKPT = os.environ.get("CKPT")


def file(content, mode=0o644):
    return ("F", mode, hashlib.sha256(content).hexdigest())


def original_file(path):
    return file((GOLDEN / path).read_bytes())


def original(name):
    return original_file("trajectory-tiny/" + name)


# What was saved, by sequence.
STORE_V1_FILES = {
    1: {b"model_epoch_1.safetensors": original("model_epoch_1.safetensors")},
    2: {b"model_epoch_2.safetensors": original("model_epoch_2.safetensors")},
    3: {b"model_epoch_3.safetensors": original("model_epoch_3.safetensors")},
    4: {b"model_epoch_3.safetensors": original("model_epoch_3.safetensors"),
        b"run": ("D", 0o755),
        b"run/dangling": ("L", b"/nowhere/at all"),
        b"run/empty": ("D", 0o700),
        b"run/newest": ("L", b"../model_epoch_3.safetensors"),
        b"run/nothing": file(b"", 0o444),
        b"run/odd \xff\n\"name\" \xc3\xa9": file(b"odd\n", 0o600),
        b"run/start": file(b"#!/bin/sh\n", 0o755),
        b"run/sub": ("D", 0o755),
        b"run/sub/config.txt": file(b"lr = 0.1\n", 0o640)},
}


def golden_stores():
    """{folder: what was saved there}: store-v1 as above; of others saved.json, {sequence: {path: what}}, where `what` is the
    name of a golden file of mode 644, or a list as it stands above."""
    def what_is(what):
        if isinstance(what, str):
            return original_file(what)
        return (what[0], os.fsencode(what[1])) if what[0] == "L" else tuple(what)

    stores = {GOLDEN / "store-v1": STORE_V1_FILES}
    for folder in set(GOLDEN.glob("store-*")) - set(stores):
        rows = json.loads((folder / "saved.json").read_text())
        stores[folder] = {int(sequence): {os.fsencode(path): what_is(what) for path, what in files.items()}
                          for sequence, files in rows.items()}
    return stores


def files_below(folder):
    """All that lies below a folder: {path: kind and what must be equal}."""
    found, top = {}, os.fsencode(folder)
    for parent, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                what = ("L", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                what = ("D", mode)
            else:
                what = file(Path(os.fsdecode(path)).read_bytes(), mode)
            found[os.path.relpath(path, top)] = what
    return found


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, **options)


def read(*arguments):
    return run(sys.executable, "-B", TESTS / "independent_reader.py", *arguments)


def snapshots_of(store):
    """{sequence: id}"""
    return {int(path.name[:8]): path.name[9:73] for path in (store / "snapshots").iterdir()}


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def parity_of(pack):
    return pack.parents[1] / "parity" / (pack.stem + ".parity")


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ckpt-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.store, self.out = self.folder / "store", self.folder / "out"

    def copy_golden_store(self):
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(STORE_V1, self.store)
        (self.own,) = (self.store / "packs").glob(self.snapshot_of(1).read_text().split('"pack":"')[1][:64] + ".pack")

    def snapshot_of(self, sequence):
        (path,) = (self.store / "snapshots").glob("%08d-*" % sequence)
        return path

    def ckpt(self, *arguments, **options):
        done = run(CKPT, *arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_refused(self, why, *arguments):
        shutil.rmtree(self.out, ignore_errors=True)
        done = read(*(arguments or (self.store, self.out, self.snapshot_of(1).name[9:73])))
        self.assertEqual(done.returncode, 3, "%s: %s" % (why, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(files_below(self.out) if self.out.exists() else {}, {}, "restored in spite of " + why)

    def assert_parity_rebuilds(self, path):
        """A pack whose first tenth is lost."""
        pack, stored = path.read_bytes(), parity_of(path).read_bytes()
        for made in parity.Parity(stored), parity.Parity.by_its_end(stored):
            self.assertEqual((made.pack.hex(), made.size), (path.stem, len(pack)))
            lost = set(range(made.count)[:made.count // 10 + 1])
            damaged = bytes(made.block * len(lost)) + pack[made.block * len(lost):]
            self.assertEqual(made.rebuilt(damaged, lost), pack)


class Document(unittest.TestCase):
    """The examples of docs/format.md, as they stand there."""

    def decode(self, coded, size, reference=""):
        coded, reference = bytes.fromhex(coded), bytes.fromhex(reference)
        return reader.decode_chunk(coded, size, lambda: reference[:size].ljust(size, b"\0"))

    def test_chunks_decode_to_what_the_document_says(self):
        ramp = bytes((37 * k + 11) % 256 for k in range(64))
        patched = bytes(0xff if k == 32 else byte for k, byte in enumerate(ramp))
        steps = b"".join(b"step %d\n" % n for n in range(1, 6))
        for coded, size, reference, chunk in [
                ("00 68 69", 2, "", b"hi"),
                ("01 01 02", 5, "", bytes.fromhex("0102010201")),
                ("02", 3, "616263", b"abc"),
                ("03 28 b5 2f fd 00 00 bd 00 00 60 73 74 65 70 20 31 0a 32 33 34 35 0a 04 00 60 08 18 07 86 e9 2a 5b",
                 35, "", steps),
                ("04 28 b5 2f fd 00 00 4d 00 00 08 ff 02 00 d0 c8 80 07 20", 64, ramp.hex(), patched),
                ("05   02 01   00 00 01   00 7f 80   7f", 5, "", bytes.fromhex("803f00c07f")),
                ("07   04 00   01 01   01 00   01 00   01 00", 8, "0000803f 000080bf", bytes.fromhex("0100803f010080bf")),
                ("06   04 44   00 20 10   01 00   01 00   01 00", 8, "0000803f 000080bf",
                 bytes.fromhex("0100803f010080bf")),
                ("06   02 00   00 02 03   01 00", 4, "0500 0000", bytes.fromhex("0600feff")),
                ("05 01 00 02 13 00 00   28 b5 2f fd 00 00 55 00 00 20 3e 3e 3e 3f 01 00 33 8e 08", 32, "",
                 b"\x3e\x3e\x3e\x3f" * 8),
                ("09   04 02   00 00 80 bf   00 00 00 00   00 00 80 3f   00 12 01   77", 21, "",
                 struct.pack("<5fB", 1, -1, 0, -1, 0, 0x77)),
                ("0a   12 15 17 45   00 00   09 00 00   03 00 00   ac 1b 3a 16 b9 9a 23 5e 64   08 a1 80"
                 "     38 e4 00 00   8d 8e 02 00   38 e4 00 00   c2 99 02 00   77", 33, "",
                 struct.pack("<8fB", 1, -2, 1.5, 1, 1.25, -1, 1, 3, 0x77)),
                ("08   36 00 17 45   00 00   0b 00 00   02 00 00   fc 48 85 f9 96 a5 be a6 94 e8 97   0a 0c"
                 "     00 80 00 00   00 80 00 00   00 80 00 00   00 80 00 00", 16, "0000803f 000080bf 00000040 0000803e",
                 bytes.fromhex("0100803f 010080bf 00000040 0300803e"))]:
            with self.subTest(coded):
                self.assertEqual(self.decode(coded, size, reference), chunk)

    def test_the_examples_stand_in_the_document(self):
        text = " ".join((TESTS.parent / "docs" / "format.md").read_text(encoding="utf-8").split())
        for words in ("00 68 69", "01 01 02", "2a 5b size 35", "04 28 b5 2f fd 00 00 4d", "05 02 01 00 00 01 00 7f 80 7f",
                      "07 04 00 01 01 01 00 01 00 01 00", "06 04 44 00 20 10", "06 02 00 00 02 03 01 00",
                      "09 04 02 00 00 80 bf 00 00 00 00 00 00 80 3f 00 12 01 77",
                      "0a 12 15 17 45 00 00 09 00 00 03 00 00 ac 1b", "08 36 00 17 45 00 00 0b 00 00 02 00 00 fc 48"):
            self.assertIn(words, text)

    def test_damaged_chunks_are_refused(self):
        for coded, size, why in [
                ("0b", 1, "a mode that is not assigned"), ("08", 1, "a context without head"), ("00 68", 2, "stored, too short"), ("00 68 69 6a", 2, "too long"),
                ("01 01 02 03", 8, "an element of 3 bytes"), ("01 01 02", 1, "an element longer than the chunk"),
                ("02 00", 1, "a copy with payload"), ("05 03 00", 3, "width 3"), ("05 02 10 01 00 01 00", 2, "rotate 16"),
                ("05 02 80 01 00 01 00", 2, "flag 7"), ("05 02 00 03 00 01 00", 2, "an unknown plane"),
                ("09 03 00 00 00 00 00 00", 3, "a palette of width 3"),
                ("09 01 00 61 00 01", 1, "an element behind the last"),
                ("05 01 00 00", 1, "a plane cut off"), ("05 01 00 01 00 00", 1, "a byte behind the tail"),
                ("03 28 b5 2f fd 00 00 bd", 35, "zstd cut off"), ("03 50 2a 4d 18 00 00 00 00", 1, "a skippable frame")]:
            with self.subTest(why):
                with self.assertRaises((ValueError, IndexError, struct.error)):
                    self.decode(coded, size)


class GoldenStores(Case):
    """A store of each format version that a release has written."""

    def test_the_reader_of_parity_rebuilds_packs(self):
        packs = [pack for pack in GOLDEN.glob("store-*/.ckpt/packs/*.pack") if parity_of(pack).exists()]
        self.assertTrue(packs)
        for pack in packs:
            self.assert_parity_rebuilds(pack)

    @unittest.skipUnless(CKPT, "CKPT does not name the program")
    def test_the_program_of_today_rebuilds_packs_from_their_parity(self):
        store = self.folder / "store"
        shutil.copytree(GOLDEN / "store-lossy" / ".ckpt", store)
        pack, = (store / "packs").iterdir()
        whole = pack.read_bytes()
        pack.write_bytes(whole[:9000] + bytes(len(whole) // 11) + whole[9000 + len(whole) // 11:])
        self.ckpt("--store", store, "repair", "--yes")
        self.assertEqual(pack.read_bytes(), whole)

    def test_the_reader_restores_all_that_was_saved(self):
        for folder, saved in golden_stores().items():
            with self.subTest(folder.name):
                out, snapshots = self.out / folder.name, snapshots_of(folder / ".ckpt")
                done = read("--all", folder / ".ckpt", out)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual({sequence: files_below(out / id_digits) for sequence, id_digits in snapshots.items()},
                                 saved)

    @unittest.skipUnless(CKPT, "CKPT does not name the program")
    def test_the_program_of_today_reads_it(self):
        for folder, saved in golden_stores().items():
            with self.subTest(folder.name):
                store, out = self.folder / folder.name, self.out / folder.name
                shutil.copytree(folder / ".ckpt", store)
                self.ckpt("--store", store, "verify", "--full")
                for sequence, id_digits in snapshots_of(store).items():
                    self.ckpt("--store", store, "restore", id_digits, "-o", out / id_digits)
                    self.assertEqual(files_below(out / id_digits), saved[sequence])

    @unittest.skipUnless(CKPT, "CKPT does not name the program")
    def test_the_program_of_today_adds_to_it(self):
        source = GOLDEN / "trajectory-tiny" / "checkpoint_epoch_3.pt"
        for folder, saved in golden_stores().items():
            with self.subTest(folder.name):
                store, out = self.folder / folder.name, self.out / folder.name
                shutil.copytree(folder / ".ckpt", store)
                self.ckpt("--store", store, "save", source.name, cwd=source.parent)
                done = read("--all", store, out)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                newest = max(snapshots_of(store))
                for sequence, id_digits in snapshots_of(store).items():
                    files = files_below(out / id_digits)
                    if sequence == newest:
                        self.assertEqual(files[os.fsencode(source.name)][2], original(source.name)[2])
                    else:
                        self.assertEqual(files, saved[sequence])


    @unittest.skipUnless(CKPT, "CKPT does not name the program")
    def test_what_the_program_of_today_repacks_stays_as_it_was_saved(self):
        store = self.folder / "repacked"
        shutil.copytree(STORE_V1, store)
        first = snapshots_of(store)[1]
        self.ckpt("--store", store, "rm", first, "--force", "--yes")
        self.ckpt("--store", store, "gc", "--yes")
        before = {path.name for path in (store / "packs").iterdir()}
        self.ckpt("--store", store, "gc", "--repack", "--yes")
        self.assertFalse(before & {path.name for path in (store / "packs").iterdir()}, "nothing was repacked")
        done = read("--all", store, self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for sequence, id_digits in snapshots_of(store).items():
            self.assertEqual(files_below(self.out / id_digits), STORE_V1_FILES[sequence])
        self.assertEqual(set(snapshots_of(store)), {2, 3, 4})


class GoldenStore(Case):
    """Store-v1, by name."""

    def test_the_reader_restores_the_newest_or_one_by_its_id(self):
        self.assertEqual(read(STORE_V1, self.out / "newest").returncode, 0)
        self.assertEqual(files_below(self.out / "newest"), STORE_V1_FILES[4])
        self.assertEqual(read(STORE_V1, self.out / "second", snapshots_of(STORE_V1)[2][:8]).returncode, 0)
        self.assertEqual(files_below(self.out / "second"), STORE_V1_FILES[2])
        self.assertEqual(read(STORE_V1, self.out / "none", "0123456789").returncode, 4)

    def test_the_tag_holds_an_id_and_a_line_feed(self):
        self.assertEqual((STORE_V1 / "tags" / "baseline").read_bytes(), snapshots_of(STORE_V1)[1].encode() + b"\n")

    @unittest.skipUnless(CKPT, "CKPT does not name the program")
    def test_the_program_of_today_finds_its_tag(self):
        self.copy_golden_store()
        self.ckpt("--store", self.store, "restore", "baseline", "-o", self.out / "tag")
        self.assertEqual(files_below(self.out / "tag"), STORE_V1_FILES[1])


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.copy_golden_store()

    def test_a_flipped_byte_in_a_pack_is_refused(self):
        size = self.own.stat().st_size
        for offset in (0, 8, 10, 15, 16, size // 2, size - 49, size - 48, size - 24, size - 16, size - 1):
            flip(self.own, offset)
            self.assert_refused("byte %d of %d" % (offset, size))
            flip(self.own, offset)
        self.assertEqual(read(self.store, self.out, self.snapshot_of(1).name[9:73]).returncode, 0)

    def test_a_flipped_byte_in_a_frame_is_refused_when_the_pack_has_its_new_hash_as_name(self):
        snapshot, before, digits = self.snapshot_of(1), self.own.read_bytes(), self.own.name[:64]
        (index_offset,) = struct.unpack("<Q", before[-48:-40])
        for offset in range(16, index_offset, 7001):
            self.own.write_bytes(before)
            flip(self.own, offset)
            new = hashlib.sha256(self.own.read_bytes()).hexdigest()
            self.own = self.own.rename(self.own.with_name(new + ".pack"))
            snapshot.write_text(snapshot.read_text().replace(digits, new))
            digits = new
            self.assert_refused("byte %d" % offset)

    def test_a_flipped_byte_in_a_snapshot_is_refused(self):
        snapshot = self.snapshot_of(1)
        text = snapshot.read_text()
        for words in ("{", '"ckpt"', '"content"', '"epoch 1"', "190288", '"sequence":1', '"step":100', '"tree"', '"data"',
                      '"pack"', self.own.name[:64]):
            offset = text.index(words) + len(words) // 2
            flip(snapshot, offset)
            self.assert_refused("byte %d of %s" % (offset, text))
            flip(snapshot, offset)

    def test_a_snapshot_of_another_name_is_refused(self):
        snapshot = self.snapshot_of(1)
        snapshot.rename(snapshot.with_name("00000009" + snapshot.name[8:]))
        self.assert_refused("sequence", self.store, self.out)
        self.assertEqual(read(self.store, self.out, self.snapshot_of(2).name[9:73]).returncode, 0)

    def test_a_pack_that_is_gone_hurts_only_what_needs_it(self):
        self.own.unlink()
        self.assert_refused("no pack")
        shutil.rmtree(self.out, ignore_errors=True)
        done = read("--all", self.store, self.out)
        self.assertEqual(done.returncode, 3)
        for sequence, id_digits in snapshots_of(self.store).items():
            refused = "%08d-%s" % (sequence, id_digits) in done.stderr
            self.assertEqual(refused, files_below(self.out / id_digits) != STORE_V1_FILES[sequence])
        self.assertIn(snapshots_of(self.store)[1], done.stderr)

    def test_a_newer_store_is_refused(self):
        config = self.store / "config.ini"
        text = config.read_text()
        for old, new in (("version = 1", "version = 2"), ("version = 1", ""), ("incompatible =", "incompatible = lossy")):
            config.write_text(text.replace(old, new))
            self.assert_refused(new)
        config.unlink()
        self.assert_refused("no config.ini")


class HostilePath(Case):
    """A pack whose hashes are right, by the document's rules for writers, with a path that must not be restored."""

    def write_store(self, path, kind=0, link=b""):
        strings = b"\0" + path + b"\0" + (link + b"\0" if link else b"")
        row = struct.pack("<IIIHBBQIIIIII32s", 1, len(path) + 2 if link else 0, 0, 0o644, kind, 0, 0, 0, 0, 0, 0, 0, 0,
                          b"" if kind else hashlib.sha256(b"").digest())
        tables = struct.pack("<4s11I16s", b"CKIX", 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, len(strings), b"") + row + strings
        raw_block = struct.pack("<I", len(tables) << 3 | 1)[:3] + tables
        index = b"\x28\xb5\x2f\xfd\x00\x58" + raw_block
        pack = b"CKPTPACK" + struct.pack("<HB5x", 1, 20) + index
        pack += struct.pack("<QQQQQ8s", 16, len(index), len(tables), 0, len(pack) + 48, b"CKPTFOOT")
        record = b"%c 644 0 %s %s\0%s\0" % (b"FDL"[kind], row[48:].hex().encode(), link, path)
        content = '{"files":1,"message":"","meta":{},"raw_bytes":0,"sequence":1,"step":null,"time":0,"tree":"%s"}' % (
            hashlib.sha256(record).hexdigest())
        for folder in "packs", "snapshots":
            (self.store / folder).mkdir(parents=True, exist_ok=True)
        (self.store / "config.ini").write_text("[store]\nversion = 1\n")
        digits = hashlib.sha256(pack).hexdigest()
        (self.store / "packs" / (digits + ".pack")).write_bytes(pack)
        for old in (self.store / "snapshots").iterdir():
            old.unlink()
        name = "00000001-%s.json" % hashlib.sha256(content.encode()).hexdigest()
        (self.store / "snapshots" / name).write_text('{"ckpt":1,"content":%s,"data":{"pack":"%s"}}' % (content, digits))

    def test_paths_that_leave_the_folder_are_refused(self):
        for path in b"../a", b"/a", b"a/../b", b"..", b".", b"a//b", b"a/", b"", b"a/./b", b"a" * 4096:
            self.write_store(path)
            self.assert_refused(repr(path))
        self.write_store(b"a/..b")
        self.assertEqual(read(self.store, self.out).returncode, 0)
        self.assertEqual(files_below(self.out)[b"a/..b"], file(b""))


@unittest.skipUnless(CKPT, "CKPT does not name the program")
class FreshStore(Case):
    def test_the_reader_restores_what_the_program_of_today_saves(self):
        work, saved = self.folder / "work", {}
        work.mkdir()
        self.ckpt("init", cwd=work)
        shutil.copytree(GOLDEN / "torch", work / "torch")
        for source in sorted((GOLDEN / "trajectory-tiny").iterdir()):  # one path for all steps, so that deltas are made
            shutil.copy(source, work / (source.name.split("_")[0] + source.suffix))
            self.ckpt("save", *sorted(set(os.listdir(work)) - {".ckpt"}), cwd=work)
            saved[len(saved) + 1] = {path: what for path, what in files_below(work).items() if path[:5] != b".ckpt"}
        done = read("--all", work / ".ckpt", self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for sequence, id_digits in snapshots_of(work / ".ckpt").items():
            self.assertEqual(files_below(self.out / id_digits), saved.pop(sequence))
        self.assertEqual(saved, {})

    def test_the_reader_restores_what_was_rounded_before_it_was_saved(self):
        work, exact = self.folder / "work", GOLDEN / "state" / "state.safetensors"
        work.mkdir()
        self.ckpt("init", cwd=work)
        self.ckpt("save", exact, "--optimizer", "bf16", cwd=work)
        done = read(work / ".ckpt", self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.out / exact.name).read_bytes(), exact.with_name("rounded.safetensors").read_bytes())

    def test_parity_is_what_the_document_says(self):
        work, rng = self.folder / "work", random.Random(7)
        work.mkdir()
        self.ckpt("init", "--parity", "10%", cwd=work)
        for size in (1, 3000, 400000):  # one group, and several
            (work / "file").write_bytes(rng.randbytes(size))
            self.ckpt("save", "file", cwd=work)
        packs = sorted((work / ".ckpt" / "packs").iterdir())
        self.assertEqual(len(packs), 3)
        for path in packs:
            self.assert_parity_rebuilds(path)


if __name__ == "__main__":
    unittest.main()
