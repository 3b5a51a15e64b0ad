"""Lines of a call graph that were not fused: what torch does under these names, for tensors and numbers in either place."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch


def add(input, other, alpha=1):
    """torch.add."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.add(torch.tensor(input), other, alpha=alpha)
    return input + other * alpha if alpha != 1 else input + other


def sub(input, other, alpha=1):
    """torch.sub."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.sub(torch.tensor(input), other, alpha=alpha)
    return input - other * alpha if alpha != 1 else input - other


def mul(input, other):
    """torch.mul."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.mul(torch.tensor(input), other)
    return input * other


def div(input, other, rounding_mode=None):
    """torch.div."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.div(torch.tensor(input), other, rounding_mode=rounding_mode)
    return input / other if rounding_mode is None else torch.div(input, other, rounding_mode=rounding_mode)


def mean(input, *options, **more):
    """torch.mean."""
    return torch.mean(input, *options, **more)


def var(input, *options, **more):
    """torch.var."""
    return torch.var(input, *options, **more)


def std(input, *options, **more):
    """torch.std."""
    return torch.std(input, *options, **more)


def amax(input, *options, **more):
    """torch.amax."""
    return torch.amax(input, *options, **more)


def amin(input, *options, **more):
    """torch.amin."""
    return torch.amin(input, *options, **more)


def exp(input, *options, **more):
    """torch.exp."""
    return torch.exp(input, *options, **more)


def log(input, *options, **more):
    """torch.log."""
    return torch.log(input, *options, **more)


def sqrt(input, *options, **more):
    """torch.sqrt."""
    return torch.sqrt(input, *options, **more)


def rsqrt(input, *options, **more):
    """torch.rsqrt."""
    return torch.rsqrt(input, *options, **more)


def sin(input, *options, **more):
    """torch.sin."""
    return torch.sin(input, *options, **more)


def cos(input, *options, **more):
    """torch.cos."""
    return torch.cos(input, *options, **more)


def erf(input, *options, **more):
    """torch.erf."""
    return torch.erf(input, *options, **more)


def square(input, *options, **more):
    """torch.square."""
    return torch.square(input, *options, **more)


def reciprocal(input, *options, **more):
    """torch.reciprocal."""
    return torch.reciprocal(input, *options, **more)


def neg(input, *options, **more):
    """torch.neg."""
    return torch.neg(input, *options, **more)


def clamp(input, *options, **more):
    """torch.clamp."""
    return torch.clamp(input, *options, **more)


def where(input, *options, **more):
    """torch.where."""
    return torch.where(input, *options, **more)


def maximum(input, *options, **more):
    """torch.maximum."""
    return torch.maximum(input, *options, **more)


def minimum(input, *options, **more):
    """torch.minimum."""
    return torch.minimum(input, *options, **more)


def lerp(input, *options, **more):
    """torch.lerp."""
    return torch.lerp(input, *options, **more)


def flatten(input, *options, **more):
    """torch.flatten."""
    return torch.flatten(input, *options, **more)


def permute(input, *options, **more):
    """torch.permute."""
    return input.permute(*options, **more)


def transpose(input, *options, **more):
    """torch.transpose."""
    return torch.transpose(input, *options, **more)


def unsqueeze(input, *options, **more):
    """torch.unsqueeze."""
    return torch.unsqueeze(input, *options, **more)


def squeeze(input, *options, **more):
    """torch.squeeze."""
    return torch.squeeze(input, *options, **more)


def cat(input, *options, **more):
    """torch.cat."""
    return torch.cat(input, *options, **more)


def stack(input, *options, **more):
    """torch.stack."""
    return torch.stack(input, *options, **more)


def flip(input, *options, **more):
    """torch.flip."""
    return input.flip(*options, **more)


def chunk(input, *options, **more):
    """torch.chunk."""
    return torch.chunk(input, *options, **more)


def narrow(input, *options, **more):
    """torch.narrow."""
    return torch.narrow(input, *options, **more)


def logsumexp(input, *options, **more):
    """torch.logsumexp."""
    return torch.logsumexp(input, *options, **more)


def tril(input, *options, **more):
    """torch.tril."""
    return torch.tril(input, *options, **more)


def triu(input, *options, **more):
    """torch.triu."""
    return torch.triu(input, *options, **more)


def masked_fill(input, *options, **more):
    """torch.masked_fill."""
    return input.masked_fill(*options, **more)


def zeros_like(input, *options, **more):
    """torch.zeros_like."""
    return torch.zeros_like(input, *options, **more)


def outer(input, *options, **more):
    """torch.outer."""
    return torch.outer(input, *options, **more)


def norm(input, *options, **more):
    """torch.norm."""
    return torch.norm(input, *options, **more)


def normalize(input, *options, **more):
    """torch.nn.functional.normalize."""
    return torch.nn.functional.normalize(input, *options, **more)


def pad(input, *options, **more):
    """torch.nn.functional.pad."""
    return torch.nn.functional.pad(input, *options, **more)


def interpolate(input, *options, **more):
    """torch.nn.functional.interpolate."""
    return torch.nn.functional.interpolate(input, *options, **more)


def dropout(input, *options, **more):
    """torch.nn.functional.dropout."""
    return torch.nn.functional.dropout(input, *options, **more)


def pixel_shuffle(input, *options, **more):
    """torch.nn.functional.pixel_shuffle."""
    return torch.nn.functional.pixel_shuffle(input, *options, **more)


def logsigmoid(input, *options, **more):
    """torch.nn.functional.logsigmoid."""
    return torch.nn.functional.logsigmoid(input, *options, **more)


def softshrink(input, *options, **more):
    """torch.nn.functional.softshrink."""
    return torch.nn.functional.softshrink(input, *options, **more)


def hardshrink(input, *options, **more):
    """torch.nn.functional.hardshrink."""
    return torch.nn.functional.hardshrink(input, *options, **more)


def tanhshrink(input, *options, **more):
    """torch.nn.functional.tanhshrink."""
    return torch.nn.functional.tanhshrink(input, *options, **more)


def celu(input, *options, **more):
    """torch.nn.functional.celu."""
    return torch.nn.functional.celu(input, *options, **more)


def cosine_similarity(input, *options, **more):
    """torch.nn.functional.cosine_similarity."""
    return torch.nn.functional.cosine_similarity(input, *options, **more)


def mse_loss(input, *options, **more):
    """torch.nn.functional.mse_loss."""
    return torch.nn.functional.mse_loss(input, *options, **more)


def smooth_l1_loss(input, *options, **more):
    """torch.nn.functional.smooth_l1_loss."""
    return torch.nn.functional.smooth_l1_loss(input, *options, **more)


def huber_loss(input, *options, **more):
    """torch.nn.functional.huber_loss."""
    return torch.nn.functional.huber_loss(input, *options, **more)


def kl_div(input, *options, **more):
    """torch.nn.functional.kl_div."""
    return torch.nn.functional.kl_div(input, *options, **more)


def triplet_margin_loss(input, *options, **more):
    """torch.nn.functional.triplet_margin_loss."""
    return torch.nn.functional.triplet_margin_loss(input, *options, **more)


def l1_loss(input, *options, **more):
    """torch.nn.functional.l1_loss."""
    return torch.nn.functional.l1_loss(input, *options, **more)


def binary_cross_entropy_with_logits(input, *options, **more):
    """torch.nn.functional.binary_cross_entropy_with_logits."""
    return torch.nn.functional.binary_cross_entropy_with_logits(input, *options, **more)


def embedding(input, *options, **more):
    """torch.nn.functional.embedding."""
    return torch.nn.functional.embedding(input, *options, **more)


def glu(input, *options, **more):
    """torch.nn.functional.glu."""
    return torch.nn.functional.glu(input, *options, **more)
