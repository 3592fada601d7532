"""The parts of the arbitration (decide/arbiter.py): minimums and climbs, who shares nodes, patience, rulings, the trade."""
