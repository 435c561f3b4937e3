"""Where workers live: local processes, or (inline) the calling process.

``contract.py`` is what the engine knows; it never sees a pipe, a process id or a vendor.
"""
