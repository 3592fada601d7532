"""Keeps prefill/decode inference services on Ascend NPU clusters at a ratio that works."""

__version__ = "0.3.0-dev"
