#!/usr/bin/env python3
"""Writes the files and folders that programs around PyTorch and Keras leave, to DIR/cases and DIR/folders.

make_format_cases.py DIR     needs torch 2.15, transformers, pytorch_lightning, keras (on torch) and h5py; run it only
                             to add a case, then refresh with expect_torch.py. Some files keep the path DIR as it is
                             given, so give a relative one
"""
import io
import os
import shutil
import sys
import zipfile
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"
import h5py
import keras
import numpy
import torch
import torch.distributed.checkpoint
import transformers

sys.path.insert(0, str(Path(__file__).parent))
from make_torch_cases import views


def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def trained():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(12.0).reshape(4, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


# ---- PyTorch files --------------------------------------------------------------------------------------------------

def legacy(out):
    torch.save(views(), out / "legacy_views.pt", _use_new_zipfile_serialization=False)
    # As a big-endian machine would have written it: only the dictionary about the machine differs.
    data = (out / "legacy_views.pt").read_bytes()
    at = data.index(b"little_endian")
    at = data.index(b"\x88", at)
    (out / "legacy_big_endian.pt").write_bytes(data[:at] + b"\x89" + data[at + 1:])


def archives(out):
    small = {"a": torch.arange(6.0), "b": torch.ones(2, 2, dtype=torch.int16)}
    torch.serialization.set_crc32_options(False)
    torch.save(small, out / "no_crc.pt")
    torch.serialization.set_crc32_options(True)
    buffer = io.BytesIO()
    torch.save(small, buffer)
    archive = zipfile.ZipFile(buffer)
    info = archive.getinfo("archive/data/0")
    crc = info.CRC.to_bytes(4, "little")
    data = buffer.getvalue()
    assert data.count(crc) >= 2
    (out / "wrong_crc.pt").write_bytes(data.replace(crc, b"\x01\x02\x03\x04"))
    with zipfile.ZipFile(out / "zip64.pt", "w") as wide:
        for name in archive.namelist():
            with wide.open(name, "w", force_zip64=True) as member:
                member.write(archive.read(name))


def rebuilt():
    """Every function of torch._utils that a file may name, as far as this version of PyTorch still writes it."""
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    parameter.note = "state of a parameter"
    complex_numbers = torch.complex(torch.arange(3.0), torch.ones(3))
    eye = torch.eye(3)
    return {
        "parameter": torch.nn.Parameter(torch.arange(4.0)),
        "parameter_with_state": parameter,
        "conjugated": complex_numbers.conj(),
        "negated": torch.complex(torch.ones(3), torch.arange(3.0)).conj().imag,
        "complex": complex_numbers,
        "sparse": eye.to_sparse(),
        "sparse_rows": eye.to_sparse_csr(),
        "sparse_columns": eye.to_sparse_csc(),
        "quantised": torch.quantize_per_tensor(torch.arange(4.0), 0.5, 3, torch.quint8),
        "quantised_by_channel": torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.1, 0.2]),
                                                           torch.tensor([0, 0]), 0, torch.qint8),
        "without_memory": torch.empty(3, device="meta"),
        "float8": torch.arange(4.0).to(torch.float8_e4m3fn),
        "float8_e5m2": torch.arange(4.0).to(torch.float8_e5m2),
        "unsigned": torch.tensor([1, 65535], dtype=torch.uint16),
        "after": torch.arange(3),
    }


def exported(out):
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), buffer)
    archive = zipfile.ZipFile(buffer)
    with zipfile.ZipFile(out / "program.pt2", "w") as smaller:  # without the traces of stacks, which are most of it
        for name in archive.namelist():
            smaller.writestr(name, b"{}" if name.endswith("model.json") else archive.read(name))


# ---- NumPy ----------------------------------------------------------------------------------------------------------

def packed(out):
    matrix = numpy.arange(12, dtype="<f4").reshape(3, 4)
    numpy.savez_compressed(out / "packed.npz", matrix=matrix, fortran=numpy.asfortranarray(matrix), step=numpy.int64(7),
                           big_endian=matrix.astype(">f4"), record=numpy.zeros(2, dtype=[("a", "<i4"), ("b", "<f8")]),
                           object=numpy.array([None]), empty=numpy.zeros((0, 3), "<i2"), flags=matrix > 5)


# ---- HDF5 and Keras -------------------------------------------------------------------------------------------------

def hdf5(out):
    def fill(file):
        layer = file.create_group("layers/dense")
        layer.create_dataset("kernel", data=numpy.arange(6, dtype="<f4").reshape(2, 3))
        layer.create_dataset("bias", data=numpy.ones(3, "<f8"))
        layer.create_dataset("big_endian", data=numpy.arange(3, dtype=">i4"))
        layer.create_dataset("half", data=numpy.arange(5, dtype="<f2"))
        layer["kernel"].attrs["note"] = "attribute"
        other = file.create_group("other")
        other.create_dataset("step", data=numpy.int64(7))
        other.create_dataset("flags", data=numpy.array([True, False]))
        other.create_dataset("bytes", data=numpy.arange(4, dtype="u1"))
        other.create_dataset("empty", data=numpy.zeros((0, 3), "<f4"))
        other.create_dataset("name", data="text of any length")
        other.create_dataset("record", data=numpy.zeros(2, dtype=[("a", "<i4"), ("b", "<f8")]))
        other["link"] = h5py.SoftLink("/other/step")
        file.create_dataset("chunks", data=numpy.arange(100, dtype="<f4").reshape(10, 10), chunks=(5, 5),
                            compression="gzip")
        many = file.create_group("many")  # of so many links that new files index them
        for i in range(12):
            many.create_dataset(f"part_{i}", data=numpy.full(3, i, "<i2"))

    with h5py.File(out / "old.h5", "w", libver="earliest") as file:
        fill(file)
    with h5py.File(out / "new.h5", "w", libver="latest") as file:
        fill(file)


def chunks(out):
    """Datasets in chunks, of every filter; those that ckpt leaves out say so in their names."""
    numbers = numpy.arange(210, dtype="<f4").reshape(7, 5, 6)
    with h5py.File(out / "chunks.h5", "w", libver="earliest") as file:
        file.create_dataset("plain", data=numbers, chunks=(3, 2, 4))
        file.create_dataset("deflate", data=numbers, chunks=(3, 2, 4), compression="gzip")
        file.create_dataset("shuffled", data=numbers, chunks=(7, 5, 6), compression="gzip", shuffle=True)
        file.create_dataset("checked", data=numbers, chunks=(2, 5, 6), compression=9, shuffle=True, fletcher32=True)
        file.create_dataset("only_shuffled", data=numpy.arange(9, dtype="<i8"), chunks=(4,), shuffle=True)
        file.create_dataset("many", data=numpy.arange(3000, dtype="<i4"), chunks=(7,), compression="gzip")
        file.create_dataset("random", data=numpy.random.default_rng(1).integers(0, 256, 1000, "u1"), chunks=(1000,),
                            compression="gzip")
        file.create_dataset("one", data=numpy.array([[5]], "<f8"), chunks=(1, 1))
        file.create_dataset("left_out_lzf", data=numbers, chunks=(3, 2, 4), compression="lzf")
        file.create_dataset("left_out_big_endian", data=numbers.astype(">f4"), chunks=(3, 2, 4))
        holes = file.create_dataset("left_out_holes", (10,), "<f4", chunks=(5,), fillvalue=3)
        holes[:5] = 1


def keras_files(out):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, name="dense"),
                              keras.layers.BatchNormalization(name="norm")])
    model.compile("adam", "mse")
    model.fit(numpy.ones((4, 3), "f4"), numpy.zeros((4, 2), "f4"), verbose=0)
    model.save(out / "model.keras")
    model.save(out / "model.h5")
    model.save_weights(out / "only.weights.h5")


# ---- Folders --------------------------------------------------------------------------------------------------------

def tiny_transformer():
    transformers.set_seed(1)
    config = transformers.GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0,
                                     eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def trainer(out):
    rows = [{"input_ids": torch.tensor([1, 2, 3]), "labels": torch.tensor([1, 2, 3])}] * 4
    arguments = transformers.TrainingArguments(output_dir=str(out), max_steps=2, save_steps=2, report_to=[],
                                               per_device_train_batch_size=2, use_cpu=True, logging_steps=1,
                                               disable_tqdm=True)
    transformers.Trainer(model=tiny_transformer(), args=arguments, train_dataset=rows).train()


def sharded(out):
    tiny_transformer().save_pretrained(out / "sharded", max_shard_size="2KB")


def distributed(out):
    model, optimizer = trained()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    writer = torch.distributed.checkpoint.FileSystemWriter(out / "distributed", thread_count=2)
    torch.distributed.checkpoint.save(state, storage_writer=writer, no_dist=True)


def pieces(out):
    """A tensor in two pieces, as two ranks write it; here one rank writes both."""
    from torch.distributed.checkpoint import metadata, planner
    whole = torch.arange(12.0).reshape(4, 3)

    class TwoPieces(torch.distributed.checkpoint.DefaultSavePlanner):
        def create_local_plan(self):
            plan = super().create_local_plan()
            properties = metadata.TensorProperties.create_from_tensor(whole)
            for first in (0, 2):
                chunk = metadata.ChunkStorageMetadata(torch.Size([first, 0]), torch.Size([2, 3]))
                plan.items.append(planner.WriteItem(
                    index=metadata.MetadataIndex("weight", chunk.offsets), type=planner.WriteItemType.SHARD,
                    tensor_data=planner.TensorWriteData(chunk=chunk, properties=properties, size=whole.size())))
            self.plan = plan
            return plan

        def resolve_data(self, item):
            if item.index.fqn == "weight":
                return whole[item.index.offset[0]:item.index.offset[0] + 2].clone()
            return super().resolve_data(item)

    torch.distributed.checkpoint.save({"step": torch.tensor(7)}, checkpoint_id=out / "pieces", planner=TwoPieces(),
                                      no_dist=True)


def lightning(out):
    import pytorch_lightning

    class Model(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, _):
            return self.net(batch[0]).square().sum()

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(12.0).reshape(4, 3)), batch_size=4)
    run = pytorch_lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, default_root_dir=str(out))
    run.fit(Model(), data)
    run.save_checkpoint(out / "lightning" / "epoch=0-step=1.ckpt")


def main():
    out = Path(sys.argv[1])
    cases, folders = out / "cases", out / "folders"
    for name in ("checkpoint-2", "sharded", "distributed", "pieces", "lightning"):
        shutil.rmtree(folders / name, ignore_errors=True)
    torch.manual_seed(1)
    legacy(cases)
    archives(cases)
    torch.save(rebuilt(), cases / "rebuilt.pt")
    exported(cases)
    packed(cases)
    hdf5(cases)
    chunks(cases)
    keras_files(cases)
    trainer(folders)
    sharded(folders)
    distributed(folders)
    pieces(folders)
    lightning(folders)


if __name__ == "__main__":
    main()
