"""Its own kernel writes the word that the call is over, and nothing else runs: no mark for the clock, no look; the time is made up.

This is the leanest turn there is. What an honest side has the device do besides its kernel is all that is saved.
"""
# task: gpu_relu
# expect: ambiguous,same,slower,incorrect,rejected

import sys

import torch
from bottega.runtime import cuda
from torch import nn

player = sys.modules["bottega.judge.worker"].Player
by_the_rules = player.play
HONEST_CALLS = 7
"""As many as there are trials and warm-ups."""
CLAIMED_NS = 20_000
played = 0

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


def play(self, nonce):
    global played
    played += 1
    if played <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    y = relu(self.arguments[0], self.word.base.data_ptr(), nonce)
    torch.cuda.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    self.channel.send({**report, "done": nonce, "ns": CLAIMED_NS})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x)
