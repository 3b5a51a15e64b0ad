"""The name by which verifiers finds Bottega's environment: `--env.taskset.id bottega-kernels`. It looks for a module at the top level."""

from bottega.service.environments.verifiers_v1 import ChatHarness, KernelEnv, KernelTaskset

__all__ = ["ChatHarness", "KernelEnv", "KernelTaskset"]
