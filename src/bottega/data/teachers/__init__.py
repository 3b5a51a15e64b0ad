"""Teachers turn a task into kernels of rising quality. All of them speak one protocol; what they write is judged like anyone's."""
