"""A peer of the selfsame protocol that calls services, written from docs/specification alone.

It takes no part in the ring and stores nothing for others. The modules follow the pages of the specification.
"""
