"""The decision, pure: a World in, a Decision out. No asyncio, no client, no clock, no logging."""
