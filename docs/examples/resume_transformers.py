#!/usr/bin/env python3
"""A Hugging Face Trainer whose checkpoints go to a store, and that goes on from there on any machine.

    python3 resume_transformers.py [STEPS]

Needs transformers, accelerate and PyTorch, and ckpt.py and ckpt_transformers.py where Python finds them
(docs/python.md)."""
import sys

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from ckpt_transformers import CheckpointCallback, latest_checkpoint


class Parity(Dataset):
    """Is the first token even?"""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"input_ids": torch.tensor([5 + i % 20, 2, 3, 4]), "labels": i % 2}


config = BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                    max_position_embeddings=8)
arguments = TrainingArguments("runs/parity", max_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 20, save_steps=5,
                              eval_strategy="steps", eval_steps=5, save_total_limit=1, per_device_train_batch_size=8,
                              report_to=[], use_cpu=True, disable_tqdm=True, seed=0)
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Parity(), eval_dataset=Parity(),
                  callbacks=[CheckpointCallback()])
folder = latest_checkpoint(arguments.output_dir)
print("resuming from", folder, flush=True)
trainer.train(resume_from_checkpoint=folder)
