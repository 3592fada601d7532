"""The parts of the arbitration (plan/arbiter.py): floors and climbs, who shares nodes, patience, rulings, the trade."""
