"""A small kernel builder that teaches: from a traced graph of a task to C++, Triton and CUDA source, one technique at a time.

    trace      the task's module as a graph of torch operators (torch.export)
    lower      operators become statements about elements: maps, reductions, products, windows, scans
    plan       statements are gathered into kernels, as far as the techniques that are switched on allow
    cpp, triton, cuda   each writes a plan down in its language
    course     techniques switched on one after the other, each step that changes the source is a lesson

It is a teacher, not a compiler: it refuses what it does not understand, and it writes as people do, with names and sizes taken from
the module in front of it rather than with numbers that a reader would have to compute.
"""
