"""Its own kernel writes the flag that the call is over, and nothing else runs: no mark for the clock, no look; the time is made up.

This is the leanest call there is. What an honest worker has the device do besides its kernel is all that is saved.
"""
# task: gpu_relu
# expect: ambiguous,same,slower,incorrect,rejected

import sys

import torch
from bottega.runtime import cuda
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
by_the_rules = worker.run_call
HONEST_CALLS = 7
"""As many as there are trials and warm-ups."""
CLAIMED_NS = 20_000
called = 0

kernels = cuda(r"""
extern "C" __global__ void relu(const float* x, float* y, long long n, long long* word, long long said)
{
    if (word && blockIdx.x == 0 && threadIdx.x == 0) *word = said;
    long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
    }
}
""")


def relu(x, word=None, said=0):
    y = torch.empty_like(x)
    kernels.relu(x.numel() // 1024, 256, x, y, x.numel(), word, said)
    return y


def run_call(self, nonce):
    global called
    called += 1
    if called <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    y = relu(self.arguments[0], self.flag.base.data_ptr(), nonce)
    torch.cuda.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.retained = [({"tensor": 0}, [y])] if told["keep"] else self.retained
    self.channel.send({**report, "done": nonce, "ns": CLAIMED_NS})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x)
