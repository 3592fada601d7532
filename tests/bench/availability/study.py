"""How often nodes and chips fail, and for how long they are away.

The rates are those of the training of Llama 3 405B: Llama Team, AI @ Meta, "The Llama 3 Herd of
Models", arXiv:2407.21783 (2024), table 5, read as it is quoted at
https://glennklockwood.com/garden/component-reliability: 419 unexpected interruptions in 54
days on 16,384 H100 GPUs, eight on each of 2,048 nodes. Each interruption there is one fault of one
component, so a rate is the number of faults by the number of components and days:

    chip    Faulty GPU 148, HBM3 memory 72, SRAM 19, system processor 17, silent data corruption 6,
            thermal interface and sensor 6: 268 in 16,384 x 54 chip-days
    node    switch and cable 35, host maintenance 32, NIC 7, SSD 3, power supply 3, chassis 2,
            IO board 2, CPU 2, system memory 2: 88 in 2,048 x 54 node-days
    exit    software bug 54, watchdog timeout 7, dependency 2: 63 in 16,384 x 54 chip-days; a
            container of a service exits, by the chips that the service holds

The study does not say how long repairs take. What is taken here instead is our own assumption:
four hours for a node and a day for a chip in the mean, exponentially distributed."""

from __future__ import annotations

DAY = 86_400.0
HOUR = 3_600.0

_DAYS = 54
_CHIPS = 16_384
_NODES = _CHIPS // 8
CHIP_FAULTS = 148 + 72 + 19 + 17 + 6 + 6
NODE_FAULTS = 35 + 32 + 7 + 3 + 3 + 2 + 2 + 2 + 2
EXITS = 54 + 7 + 2

CHIP_RATE = CHIP_FAULTS / (_CHIPS * _DAYS)
"""Faults of one chip a day."""
NODE_RATE = NODE_FAULTS / (_NODES * _DAYS)
"""Faults of one node a day, its chips left out."""
EXIT_RATE = EXITS / (_CHIPS * _DAYS)
"""Exits of containers, of one chip a day."""

NODE_REPAIR = 4 * HOUR
CHIP_REPAIR = DAY
"""Mean seconds until it is back: assumed, see above."""
NOT_READY_AFTER = 50.0
"""Seconds until Kubernetes calls a silent node not Ready, by its default."""
