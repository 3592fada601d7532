"""Carries out plans: the only package that changes the objects of jobs."""
