# SPDX-License-Identifier: Apache-2.0
"""Transformers' Trainer: a small random GPT-2, a checkpoint every four steps, and all losses."""
import json
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def main():
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=8, per_device_train_batch_size=4, logging_steps=1, save_steps=4,
                                  report_to=[], use_cpu=True, ddp_backend="gloo", disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=Samples()).train()
    if os.environ["RANK"] == "0":
        with open(os.path.join(sys.argv[1], "checkpoint-8", "trainer_state.json"), encoding="utf-8") as file:
            for step in json.load(file)["log_history"]:
                if "loss" in step:
                    print(f"RESULT step {step['step']} loss {step['loss']}", flush=True)


if __name__ == "__main__":
    main()
