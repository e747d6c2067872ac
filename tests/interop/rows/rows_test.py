#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every layer over rows, forward and backward, beside PyTorch's in double precision: the same input, parameters and gradient of
the result in, the same result and gradients out.

rows_test.py ROWS_PROGRAM"""
import os
import subprocess
import sys

from interop import TORCH_PYTHON, need_torch

# As a share of the largest number of the list: sums of up to a thousand products of 32-bit floats.
TOLERANCE = 1e-5


def main():
    need_torch()
    if "TORCH_SIDE" not in os.environ:
        environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "TORCH_SIDE": "1"}
        return subprocess.run([TORCH_PYTHON, __file__, *sys.argv[1:]], env=environment, check=False).returncode
    compare_all(sys.argv[1])
    return 0


def compare_all(program):
    import torch
    from torch.nn import functional

    def ours(layer, sizes, inputs, shapes):
        """The lists of that layer, in these shapes, for these inputs."""
        import numpy
        data = b"".join(tensor.detach().contiguous().to(torch.float32).numpy().tobytes() for tensor in inputs)
        result = subprocess.run([program, layer, *map(str, sizes)], input=data, capture_output=True, check=False, timeout=60)
        assert result.returncode == 0, (layer, sizes, result.stderr)
        values = torch.from_numpy(numpy.frombuffer(result.stdout, dtype=numpy.float32).copy()).double()
        lists = []
        for shape in shapes:
            count = shape.numel()
            lists.append(values[:count].reshape(shape))
            values = values[count:]
        assert values.numel() == 0, (layer, sizes, "numbers left over")
        return lists

    def check(layer, sizes, got, wanted):
        for number, (one, other) in enumerate(zip(got, wanted)):
            scale = max(1e-3, other.abs().max().item())
            apart = (one - other).abs().max().item() / scale
            assert apart < TOLERANCE, f"{layer} {sizes}: list {number} is {apart:.1e} of its largest number away from PyTorch's"
        print(f"{layer} {sizes}: as PyTorch's", flush=True)

    def random(*shape):
        # Of 32-bit floats: both sides get the same numbers.
        return torch.randn(*shape).double()

    def compare(layer, sizes, function, tensors, ids=None):
        """`tensors`: the input, then the parameters, which `function` takes. `ids` stand in the place of the input."""
        tensors = [tensor.requires_grad_() for tensor in tensors]
        result = function(*tensors)
        pull = random(*result.shape)
        result.backward(pull)
        first = [] if ids is None else [ids]
        lists = [result.detach(), *(tensor.grad for tensor in tensors)]
        check(layer, sizes, ours(layer, sizes, [*first, *tensors, pull], [values.shape for values in lists]), lists)

    def attention(qkv, heads):
        batch, tokens, width = qkv.shape
        q, k, v = (part.reshape(batch, tokens, heads, -1).transpose(1, 2) for part in qkv.split(width // 3, dim=-1))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width // 3)

    torch.manual_seed(1)
    for rows, inputs, outputs in ((1, 3, 2), (64, 192, 576), (7, 1024, 33), (70, 1050, 1001)):
        tensors = [random(rows, inputs), random(outputs, inputs), random(outputs)]
        compare("linear", (inputs, outputs, 1, rows), functional.linear, tensors)
        compare("linear", (inputs, outputs, 0, rows), functional.linear, [tensor.detach() for tensor in tensors[:2]])
    for tokens, width, batch in ((1, 1, 1), (64, 192, 3), (5, 7, 2)):
        sizes = (tokens, width, batch)
        x = [random(batch, tokens, width)]
        compare("relu", sizes, torch.relu, x)
        compare("gelu", sizes, functional.gelu, [3 * x[0].detach()])
        if width > 1:
            compare("layer_norm", sizes, lambda x, scale, shift: functional.layer_norm(x, scale.shape, scale, shift),
                    [x[0].detach(), random(width), random(width)])
        compare("positions", sizes, torch.add, [x[0].detach(), random(tokens, width)])
        compare("token_mean", sizes, lambda x: x.mean(1), [x[0].detach()])
        ids = torch.randint(0, 11, (batch, tokens))
        compare("embedding", (11, *sizes), lambda table, ids=ids: functional.embedding(ids, table), [random(11, width)], ids)
    for tokens, width, heads, batch in ((1, 4, 2, 1), (64, 192, 4, 2), (17, 21, 3, 3), (130, 32, 1, 1)):
        compare("attention", (tokens, width, heads, batch), lambda qkv, heads=heads: attention(qkv, heads),
                [random(batch, tokens, 3 * width)])
    for channels, side, batch in ((16, 1, 1), (48, 5, 2)):
        x = random(batch, side, side, channels)
        compare("tokens", (channels, side, batch), lambda x: x.flatten(1, 2), [x])
        compare("flatten", (channels, side, batch), lambda x: x.permute(0, 3, 1, 2).flatten(1), [x.detach()])
        compare("map_bias", (channels, side, batch), torch.add, [x.detach(), random(channels)])
    images = random(2, 5, 5, 3)
    grey = images.mean(-1)
    check("grey", (5, 2), ours("grey", (5, 2), [images], [grey.shape]), [grey])
    results, targets = random(3, 7).requires_grad_(), random(3, 7)
    loss = functional.mse_loss(results, targets) * 3  # the sum over the samples
    loss.backward()
    check("squared_error", (3, 7), ours("squared_error", (3, 7), [results, targets], [loss.shape, results.shape]),
          [loss.detach(), results.grad])


if __name__ == "__main__":
    sys.exit(main())
