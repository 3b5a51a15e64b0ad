"""The cell in which untrusted code runs: name spaces, private files, limits, system-call filter, and the warden that guards it.

Linux only, standard library only. Every part is tried and reported by name; a machine that refuses one gets the next best thing.
Not covered: bugs of the kernel or the device driver, side channels, and host memory that a device driver pins for a process.
"""
