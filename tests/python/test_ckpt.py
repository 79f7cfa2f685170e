#!/usr/bin/env python3
"""tools/python/ckpt.py without PyTorch: states, NumPy arrays, files, the background, errors."""
import collections
import json
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import time

from ckpt_case import GOLDEN, MODULE, SKIPPED, Case, ckpt, damage_packs, main

try:
    import numpy
except ImportError as why:
    print(f"skipped: {why} (python3-numpy)")
    sys.exit(SKIPPED)


class States(Case):
    def test_numbers_come_back_bit_for_bit(self):
        nans = [struct.unpack("<d", struct.pack("<Q", bits))[0]
                for bits in (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000123)]
        state = {"floats": [0.0, -0.0, 1e-320, 5e-324, 0.1, 1.7976931348623157e308, float("inf"), float("-inf"), *nans],
                 "ints": [0, -1, 2**53, 2**53 + 1, -2**63, 2**64, 2**5000, -2**200], "complex": 1e-320 - 0.0j,
                 "bools": [True, False], "none": None}
        self.assert_same(self.save_and_load(state), state)

    def test_text_comes_back_whatever_is_in_it(self):
        state = {"text": ["", "a", "\0", "\n\t\"\\", "\u4e2d\U0001f600", "\ud800"], "\0 \ud800": "key", "": "no key"}
        self.assert_same(self.save_and_load(state), state)

    def test_containers_keep_types_and_order(self):
        ordered = collections.OrderedDict([("z", 1), ("a", ())])
        ordered.note = {"version": 1}
        state = {"z": {}, "a": [], "t": ((), [()], {}), 1: {0: "int", "0": "text", None: 1, True: 2, 0.5: 3},
                 "ordered": ordered, "counter": collections.Counter({30: 2, 10: 1})}
        self.assert_same(self.save_and_load(state), state)

    def test_a_state_of_nothing_is_a_state(self):
        self.assert_same(self.save_and_load({}), {})

    def test_arrays_of_every_type_come_back(self):
        for dtype in "? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8".split():
            with self.subTest(dtype):
                bits = numpy.arange(256, dtype="u1").reshape(-1, numpy.dtype(dtype).itemsize * 4)
                array = (bits & 1 if dtype == "?" else bits).view(dtype)  # all kinds of NaN among them
                state = {"matrix": array, "point": array[0, 0].reshape(()), "empty": array[:0],
                         "hollow": numpy.zeros((3, 0, 2), dtype), "scalar": array[0, 1]}
                self.assert_same(self.save_and_load(state), state)

    def test_big_endian_arrays_come_back_big_endian(self):
        state = {"a": numpy.arange(6, dtype=">f4").reshape(2, 3), "b": numpy.array(7, dtype=">i8")}
        self.assert_same(self.save_and_load(state), state)

    def test_views_are_saved_by_value(self):
        base = numpy.arange(24.0).reshape(4, 6)
        state = {"transposed": base.T, "slice": base[1:3, ::2], "reversed": base[::-1],
                 "same": numpy.broadcast_to(base[0], (5, 6)), "fortran": numpy.asfortranarray(base)}
        self.assert_same(self.save_and_load(state), state)

    def test_names_that_clash_or_cannot_be_names_keep_tensors_apart(self):
        state = {"a.b": numpy.array(1), "a": {"b": numpy.array(2)}, 0: numpy.array(3), "0": numpy.array(4),
                 "__metadata__": numpy.array(5), "": numpy.array(6), "\n": numpy.array(7), "\ud800": numpy.array(8),
                 "x" * 5000: numpy.array(9)}
        self.assert_same(self.save_and_load(state), state)

    def test_what_cannot_be_saved_is_named_by_its_place(self):
        class Strange:
            pass
        hollow = []
        hollow.append(hollow)
        masked = numpy.ma.masked_array([1, 2], [True, False])
        for value, what in [
                (Strange(), "a <class '__main__.States"), ({1}, "a <class 'set'>"), (b"bytes", "a <class 'bytes'>"),
                (collections.defaultdict(list), "a <class 'collections.defaultdict'>"), (range(3), "a <class 'range'>"),
                (numpy.array([None]), "elements of object"), (numpy.array(["a"]), "elements of str"),
                (numpy.zeros(2, "f4,i4"), "elements of"), (numpy.zeros(2, "c16"), "elements of complex128"),
                (numpy.datetime64("2020-01-01"), "a <class 'numpy.datetime64'>"), (masked, "a <class 'numpy.ma"),
                (numpy.zeros((1,) * 17), "a tensor of over 16 dimensions"), ({(1, 2): 3}, "a key of <class 'tuple'>")]:
            with self.subTest(what):
                error = self.assert_error(ckpt.USAGE, ckpt.save, {"optimizer": {"groups": [{"foo": value}]}})
                self.assertIn(f"optimizer.groups[0].foo: cannot save {what}", error.message)
        self.assertIn("nested over 100 deep", self.assert_error(ckpt.USAGE, ckpt.save, {"a": hollow}).message)
        self.assertEqual(ckpt.log(), [])

    def test_the_file_is_plain_safetensors_with_the_documented_metadata(self):
        ckpt.save({"w": numpy.array([1.5, 2.5], "f4"), "n": [3, 0.1]}, wait=True, name="mine.safetensors")
        ckpt.restore(out="out")
        data = pathlib.Path("out/mine.safetensors").read_bytes()
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        self.assertEqual(header["w"], {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})
        self.assertEqual(data[8 + size:], struct.pack("<2f", 1.5, 2.5))
        self.assertEqual(json.loads(header["__metadata__"]["ckpt.state"]), {"version": 1, "state": {
            "dict": [["w", {"numpy": "w"}], ["n", [3, {"float": "0x1.999999999999ap-4"}]]]}})

    def test_a_state_from_a_newer_version_or_without_sense_is_refused(self):
        for text, code in [('{"version":2,"state":{}}', ckpt.VERSION), ("{", ckpt.FORMAT), ("[" * 100000, ckpt.FORMAT),
                           ('{"version":1,"state":{"what":1}}', ckpt.FORMAT), ('{"version":1,"state":{}}', ckpt.FORMAT),
                           ('{"version":1,"state":{"numpy":"none"}}', ckpt.FORMAT)]:
            with self.subTest(text[:30]):
                header = json.dumps({"__metadata__": {"ckpt.state": text}}).encode()
                pathlib.Path("bad.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
                ckpt.save("bad.safetensors")
                self.assert_error(code, ckpt.load)


class Into(Case):
    def setUp(self):
        super().setUp()
        self.saved = {"a": numpy.arange(6.0).reshape(2, 3), "l": [numpy.array(5)], "n": 1}
        ckpt.save(self.saved, wait=True)

    def test_tensors_of_the_caller_are_filled_and_returned(self):
        a = numpy.zeros((2, 3))
        state = ckpt.load(into={"a": a})
        self.assertIs(state["a"], a)
        self.assert_same(state, self.saved)

    def test_arrays_that_are_not_plain_memory_are_filled_too(self):
        wide, point = numpy.zeros((2, 6)), numpy.array(0, dtype=">i8")
        ckpt.load(into={"a": wide[:, ::2], "l": [point]})
        self.assertEqual(wide.tolist(), [[0, 0, 1, 0, 2, 0], [3, 0, 4, 0, 5, 0]])
        self.assertEqual(point, 5)

    def test_other_types_and_shapes_are_refused_before_anything_is_read(self):
        good = numpy.full((2, 3), 7.0)
        for into in ({"a": good.astype("f4")}, {"a": numpy.zeros((3, 2))}, {"a": numpy.broadcast_to(good[0], (2, 3))}):
            self.assertIn("a: ", self.assert_error(ckpt.USAGE, ckpt.load, into=into).message)
        error = self.assert_error(ckpt.NOTFOUND, ckpt.load, into={"a": good, "other": {"x": good}})
        self.assertIn("other.x", error.message)
        self.assertTrue((good == 7).all())


class Files(Case):
    def test_tensors_of_files_of_others_come_by_name(self):
        shutil.copy(GOLDEN / "cases" / "mixed.npz", ".")
        saved = ckpt.save("mixed.npz", step=3)
        with numpy.load("mixed.npz", allow_pickle=False) as wanted:
            got = ckpt.load("step:3")
            for name in got:
                self.assert_same(got[name], wanted[name])
            self.assertTrue(set(got) <= set(wanted.files) and got)
        self.assertEqual(saved.files, 1)

    def test_tensors_of_a_training_of_ckpt_come_by_name(self):
        trained = subprocess.run([os.environ["CKPT_PROGRAM"], "-q", "train", GOLDEN / "recipes" / "tiny.ini", "--data",
                                  GOLDEN / "fashion-2000", "--steps", "1"], stderr=subprocess.PIPE)
        if trained.returncode == 9:
            self.skipTest("the program was built without training")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        got = ckpt.load(framework="numpy")
        self.assertEqual(got["model.dense1.weight"].shape, (10, 784))
        self.assertTrue(got["model.dense1.weight"].any())

    def test_one_of_several_files_is_chosen_by_its_path(self):
        os.makedirs("run")
        for i, name in enumerate("ab"):
            numpy.save(f"run/{name}.npy", numpy.full(4, i))
        ckpt.save([pathlib.Path("run/a.npy"), "run/b.npy"])
        self.assertIn("run/a.npy, run/b.npy", self.assert_error(ckpt.USAGE, ckpt.load).hint)
        for i, name in enumerate("ab"):
            got = ckpt.load(file=f"run/{name}.npy")
            self.assert_same(list(got.values()), [numpy.full(4, i)])
        self.assert_error(ckpt.NOTFOUND, ckpt.load, file="run/c.npy")

    def test_a_file_without_tensors_is_no_state(self):
        pathlib.Path("notes.txt").write_text("hello")
        ckpt.save("notes.txt")
        self.assertIn("notes.txt", self.assert_error(ckpt.NOTFOUND, ckpt.load).hint)

    def test_restore_gives_the_files_back_and_overwrites_nothing_unasked(self):
        pathlib.Path("a").write_bytes(b"one")
        ckpt.save("a")
        pathlib.Path("a").write_bytes(b"two")
        self.assert_error(ckpt.CONFIRM, ckpt.restore)
        self.assertEqual(ckpt.restore(out="b").files, 1)
        self.assertEqual(pathlib.Path("b/a").read_bytes(), b"one")
        ckpt.restore(overwrite=True)
        self.assertEqual(pathlib.Path("a").read_bytes(), b"one")

    def test_log_and_find_tell_what_is_there(self):
        first = ckpt.save({"x": 1}, step=1, wait=True)
        second = ckpt.save({"x": 2}, step=2, message="h\u00e9", meta={"val_acc": numpy.float32(0.5), "n": 3, "t": "u"},
                           tag="good", wait=True)
        newest, oldest = ckpt.log()
        self.assertEqual((newest.id, newest.step, newest.message, newest.tags), (second.id, 2, "h\u00e9", ["good"]))
        self.assertEqual(newest.meta, {"val_acc": "0.5", "n": "3", "t": "u"})
        self.assertEqual((oldest.id, oldest.step, oldest.message, oldest.tags), (first.id, 1, "", []))
        self.assertEqual(ckpt.find("good~1"), first.id)

    def test_a_damaged_latest_falls_back_with_a_warning(self):
        ckpt.save({"x": numpy.arange(9)}, wait=True)
        kept = set(os.listdir(".ckpt/packs"))
        ckpt.save({"x": numpy.arange(99)}, wait=True)
        ckpt.close()
        for pack in set(os.listdir(".ckpt/packs")) - kept:
            os.truncate(f".ckpt/packs/{pack}", 50)
        with self.assertWarns(RuntimeWarning):
            state = ckpt.load()
        self.assert_same(state, {"x": numpy.arange(9)})


    def test_damage_that_shows_only_when_tensors_are_read_falls_back_whole(self):
        random = numpy.random.default_rng(1)
        states = [{"x": random.random(9000), "step": step} for step in range(2)]
        good = ckpt.save(states[0], wait=True)
        kept = set(os.listdir(".ckpt/packs"))
        damaged = ckpt.save(states[1], wait=True)
        ckpt.close()
        damage_packs(kept)
        with self.assertWarnsRegex(RuntimeWarning, f"{damaged.id[:8]}.*taking {good.id[:8]}"):
            self.assert_same(ckpt.load(), states[0])
        x = numpy.zeros(9000)
        with self.assertWarns(RuntimeWarning):
            self.assertEqual(ckpt.load(into={"x": x})["step"], 0)
        self.assert_same(x, states[0]["x"])
        self.assertIn(damaged.id[:8], self.assert_error(ckpt.DATA, ckpt.load, damaged.id).message)

    def test_tensors_of_equal_names_in_several_files_fall_back_too(self):
        random = numpy.random.default_rng(1)

        def save():
            for name in "ab":
                numpy.savez(f"{name}.npz", x=random.random(9000))
            ckpt.save(["a.npz", "b.npz"])
        save()
        with numpy.load("a.npz") as file:
            wanted = dict(file)
        kept = set(os.listdir(".ckpt/packs"))
        save()
        damage_packs(kept)
        with self.assertWarns(RuntimeWarning):
            self.assert_same(ckpt.load(file="a.npz"), wanted)

    def test_what_is_raised_while_loading_comes_as_it_was(self):
        ckpt.save({"x": numpy.arange(9)}, wait=True)

        class Strange(dict):
            def items(self):
                raise ZeroDivisionError("mine")
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            ckpt.load(into=Strange())


class Background(Case):
    def test_what_changes_after_save_is_not_saved(self):
        go = self.stop_writer()
        state = {"x": numpy.arange(1000.0), "l": [1]}
        ckpt.save(state)
        state["x"][:] = -1
        state["l"].append(2)
        go()
        ckpt.wait()
        self.assert_same(ckpt.load(), {"x": numpy.arange(1000.0), "l": [1]})

    def saved_steps(self, *saves):
        """Steps that are saved of saves made while one of step 0 is in flight."""
        go = self.stop_writer()
        ckpt.save({"x": 0}, step=0)
        self.await_save_in_flight()
        for step, options in enumerate(saves, 1):
            ckpt.save({"x": step}, step=step, **options)
        go()
        ckpt.wait()
        return [checkpoint.step for checkpoint in reversed(ckpt.log())]

    def test_a_newer_save_replaces_the_staged_one_and_is_counted(self):
        self.assertEqual(self.saved_steps({}, {}, {}), [0, 3])
        stats = ckpt.writer_stats()
        self.assertEqual(stats[:5], (4, 2, 2, 0, 0))
        self.assertEqual(stats.last.id, ckpt.find("latest"))

    def test_a_best_save_is_replaced_by_a_newer_best_only(self):
        self.assertEqual(self.saved_steps({"importance": "best"}, {}, {"importance": "best"}, {}), [0, 3])
        self.assertEqual((ckpt.writer_stats().replaced, ckpt.writer_stats().dropped), (1, 2))

    def test_a_save_to_keep_is_never_replaced(self):
        self.assertEqual(self.saved_steps({}, {"importance": "keep"}, {}), [0, 2])

    def test_a_tagged_save_is_never_replaced(self):
        self.assertEqual(self.saved_steps({"tag": "mine"}, {}), [0, 1])

    def test_wait_gives_what_was_saved(self):
        saved = ckpt.save({"x": numpy.zeros(3)}, wait=True)
        self.assertEqual((saved.id, saved.files, saved.tensors), (ckpt.find("latest"), 1, 1))
        self.assertIsNone(ckpt.save({"x": 1}))

    def fail_in_background(self):
        os.rename(".ckpt/tmp", ".ckpt/was")
        pathlib.Path(".ckpt/tmp").write_text("not a folder")
        failed = ckpt.writer_stats().failed
        ckpt.save({"x": 1}, step=1)
        while ckpt.writer_stats().failed == failed:
            time.sleep(0.001)
        os.unlink(".ckpt/tmp")
        os.rename(".ckpt/was", ".ckpt/tmp")

    def test_a_failure_is_raised_by_the_next_save_which_is_made_all_the_same(self):
        self.fail_in_background()
        with self.assertRaisesRegex(ckpt.Error, "an earlier save failed: "):
            ckpt.save({"x": 2}, step=2)
        ckpt.wait()
        self.assertEqual([checkpoint.step for checkpoint in ckpt.log()], [2])

    def test_a_failure_is_raised_by_wait_and_by_close_once(self):
        for call in (ckpt.wait, ckpt.close):
            self.fail_in_background()
            with self.assertRaises(ckpt.Error):
                call()
            call()

    def test_a_failure_is_printed_at_exit(self):
        run = self.run_python("import ckpt, os\nos.rmdir('.ckpt/tmp'); open('.ckpt/tmp', 'w')\nckpt.save({'x': 1})\n")
        self.assertRegex(run.stderr, r"^ckpt: .*[Nn]ot a directory")
        self.assertNotIn("Traceback", run.stderr)

    def test_a_program_that_ends_has_its_last_save(self):
        run = self.run_python("import ckpt\nfor i in range(3): ckpt.save({'x': i, 's': ' ' * 100000})\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(ckpt.load()["x"], 2)

    def test_a_fork_leaves_the_background_to_its_parent(self):
        run = self.run_python("import ckpt, os, sys\nckpt.save({'x': 1})\nchild = os.fork()\n"
                              "if child == 0: ckpt.save({'x': 2}, tag='child'); sys.exit(7)\n"
                              "assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(sorted(ckpt.load(checkpoint.id)["x"] for checkpoint in ckpt.log()), [1, 2])
        self.assertEqual(ckpt.load("child"), {"x": 2})

    def test_a_signal_handler_may_save(self):
        run = self.run_python(
            "import ckpt, os, signal\nstate = {'x': list(range(1000))}\n"
            "signal.signal(signal.SIGTERM, lambda *_: ckpt.save({'last': 1}, tag='last', wait=True))\n"
            "for i in range(20):\n    ckpt.save(state)\n    if i == 10: os.kill(os.getpid(), signal.SIGTERM)\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(ckpt.load("last"), {"last": 1})


class Errors(Case):
    def test_no_store_says_how_to_make_one(self):
        os.makedirs("none")
        error = self.assert_error(ckpt.NOSTORE, ckpt.save, {"x": 1}, store="none")
        self.assertEqual(error.exit_status, 4)
        self.assertIn("ckpt init", error.hint)

    def test_what_makes_no_sense_is_refused_at_once(self):
        for options in ({"step": -1}, {"step": "5"}, {"step": 2**63}, {"tag": "a/b"}, {"tag": "latest"},
                        {"name": "../b"}, {"message": 5}, {"message": "a\0b"}, {"meta": {"a b": "c"}}, {"meta": {"a": []}},
                        {"importance": "high"}, {"store": 5}, {"message": "x" * 5000}):
            with self.subTest(options):
                self.assert_error(ckpt.USAGE, ckpt.save, {"x": 1}, **options)
        for state in (5, [], [1], {1}, collections.defaultdict(int)):
            self.assert_error(ckpt.USAGE, ckpt.save, state)
        self.assert_error(ckpt.USAGE, ckpt.load, framework="jax")
        self.assertEqual(ckpt.log(), [])

    def test_a_checkpoint_that_is_not_there_is_not_found(self):
        error = self.assert_error(ckpt.NOTFOUND, ckpt.load, "step:5")
        self.assertEqual(error.exit_status, 4)

    def test_a_library_that_is_missing_is_named(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(MODULE / "ckpt.py", alone)
        script = ("import ckpt\nassert ckpt.__file__.startswith(sys.argv[1])\ntry: ckpt.log()\n"
                  "except ckpt.Error as why: print(why.exit_status, why)\nelse: print('works')\n")
        script = "import sys; sys.path.insert(0, sys.argv[1])\n" + script
        run = self.run_python(script, str(alone), CKPT_LIBRARY="/nowhere/libckpt.so")
        self.assertRegex(run.stdout, r"^9 cannot load /nowhere/libckpt.so: .*\nhint: CKPT_LIBRARY")
        (alone / "libckpt.so").symlink_to(os.environ["CKPT_LIBRARY"])
        self.assertEqual(self.run_python(script, str(alone), CKPT_LIBRARY="").stdout, "works\n")
        (alone / "libckpt.so").unlink()
        (alone / "libckpt.so").write_text("not a library")
        run = self.run_python(script, str(alone), CKPT_LIBRARY="")
        self.assertRegex(run.stdout, r"^9 cannot load .*\nhint: install")

    def test_an_error_can_be_pickled(self):
        error = ckpt.Error(41, "what", "hint", "where", 2)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual(vars(again), vars(error))
        self.assertEqual(str(again), "what (where)\nhint: hint")


if __name__ == "__main__":
    main()
