"""The rule-based compiler: a task's PyTorch module in, candidates in C++, Triton or CUDA out. No model is involved.

The stages, in order:

- `callgraph*`: record the torch calls of `forward` with names, options, shapes and data types. Prompts print it, the compiler takes its names.
- `trace`: export the module with torch.export as a graph of operators; what no stage below knows is decomposed.
- `lowering/`: turn each operator into a kernel description (`kernel`: map, row program, product, ...) or a call of torch.
- `planner`, `fusion_rule`, `fusion`, `attention_pattern`, `merged_linears`, `layouts`: choose torch's, ours or the library's version of each and
  fuse, as the enabled passes allow.
- `backends/{cpp,triton,cuda}`: write a plan as source text. Each has passes of its own (tiles, vectors, packing).
- `layers/`, `network_rule`, `cuda_graph`: leave a network's own text as it is, replace its layers, capture it in a CUDA graph.
- `library/`: hand-written kernels that a candidate may call by name. `link` inlines them into a candidate, `strip` is the inverse.

`step_compiler` drives the stages and makes a `BuildStep` of each pass that changes the source; `library_compiler` makes only the last step, and
`draft_compiler` the candidates that differ in `choices`: whose heavy operators, what is fused, sizes of blocks.
"""
