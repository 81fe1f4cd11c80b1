"""The polyhedral core: access relations, dependences, schedules, legality, loops.

The only importer of islpy.
"""
