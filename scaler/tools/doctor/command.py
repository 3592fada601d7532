"""`scaler doctor NAMESPACE/JOBID`: the old name of `scaler why`, which includes its checks."""

from __future__ import annotations

import argparse
import sys

from scaler.tools.why import command as why

HELP = """the old name of `scaler why`, with every condition of a global rank table

Use scaler why NAMESPACE/JOBID.

Exit code: 0 all of ClusterD's conditions are met, 1 one is not or the cluster cannot be read, 2
usage."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    why.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the new name, then the answer."""
    sys.stderr.write(
        f"scaler doctor is called scaler why now: scaler why {'/'.join(filter(None, args.name))}\n"
    )
    return why.run(args, always_ranks=True)
