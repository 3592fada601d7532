"""The decision, pure: a Snapshot in, a Plan out. No asyncio, no client, no clock, no logging."""
