"""Several services on the same nodes: section 3b of the contract.

The contract is `docs/reference/contract.md`. Where a docstring begins with a clause, such as `5h:`
or `10b:`, it is that of section 3b; `S6` and the like are what must hold of every decision."""
