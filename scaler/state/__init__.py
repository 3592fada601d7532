"""From records to the world: instances, rules in force, what is free, what is assumed. Decides
nothing."""
