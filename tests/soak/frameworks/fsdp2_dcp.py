# SPDX-License-Identifier: Apache-2.0
"""FSDP2 with distributed checkpoints: rank 1 fails with 7 after step 5, and the next round goes on from the checkpoint of step 4."""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 8


def main():
    folder = sys.argv[1]
    dist.init_process_group("cpu:gloo")
    rank = dist.get_rank()
    savers = dist.new_group(backend="gloo")  # a save beside the training must not share its group
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    place = os.path.join(folder, "last")
    if os.path.exists(os.path.join(place, ".metadata")):
        weights, state = get_state_dict(model, optimizer)
        state_dict = {"model": weights, "optimizer": state}
        dcp.load(state_dict, checkpoint_id=place)
        set_state_dict(model, optimizer, model_state_dict=state_dict["model"], optim_state_dict=state_dict["optimizer"])
        first = 4
    saving = None
    for step in range(first, STEPS):
        samples = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + rank))
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == 4:
            weights, state = get_state_dict(model, optimizer)
            saving = dcp.async_save({"model": weights, "optimizer": state}, checkpoint_id=place, process_group=savers)
        if step == 5 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            saving.result()
            os._exit(7)
        if step == 5 and saving is not None:
            saving.result()
    total = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
    print(f"RESULT rank {rank} from step {first} loss {loss.item():.6f} weights {total:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
