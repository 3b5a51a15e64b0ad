"""Redirects cudaEventElapsedTime in the linkage tables of every loaded library.

Python sees its original objects; every interval between events reads a fiftieth.
"""
# task: gpu_softmax
# expect: rejected,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(
    r"""
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>
#include <cstring>

using elapsed_type = int (*)(float*, void*, void*);
static elapsed_type real_elapsed;

static int shrunk_elapsed(float* milliseconds, void* begin, void* end) {
    int code = real_elapsed(milliseconds, begin, end);
    *milliseconds /= 50;
    return code;
}

static void redirect(const char* base, const ElfW(Rela)* table, size_t bytes, const ElfW(Sym)* symbols, const char* names) {
    for (const ElfW(Rela)* entry = table; (const char*)entry < (const char*)table + bytes; ++entry) {
        const char* name = names + symbols[ELF64_R_SYM(entry->r_info)].st_name;
        if (strncmp(name, "cudaEventElapsedTime", 20) != 0) continue;
        if (real_elapsed == nullptr) real_elapsed = (elapsed_type)dlsym(RTLD_DEFAULT, name);
        void** slot = (void**)(base + entry->r_offset);
        uintptr_t page = (uintptr_t)slot & ~uintptr_t(getpagesize() - 1);
        if (real_elapsed && mprotect((void*)page, getpagesize(), PROT_READ | PROT_WRITE) == 0) *slot = (void*)shrunk_elapsed;
    }
}

static int visit(dl_phdr_info* object, size_t, void*) {
    if (strstr(object->dlpi_name, "vdso") || strstr(object->dlpi_name, "libcudart")) return 0;
    const char* base = (const char*)object->dlpi_addr;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Rela) *calls = nullptr, *data = nullptr;
        size_t call_bytes = 0, data_bytes = 0;
        const ElfW(Sym)* symbols = nullptr;
        const char* names = nullptr;
        for (const ElfW(Dyn)* entry = (const ElfW(Dyn)*)(base + object->dlpi_phdr[i].p_vaddr); entry->d_tag != DT_NULL; ++entry) {
            if (entry->d_tag == DT_JMPREL) calls = (const ElfW(Rela)*)entry->d_un.d_ptr;
            if (entry->d_tag == DT_PLTRELSZ) call_bytes = entry->d_un.d_val;
            if (entry->d_tag == DT_RELA) data = (const ElfW(Rela)*)entry->d_un.d_ptr;
            if (entry->d_tag == DT_RELASZ) data_bytes = entry->d_un.d_val;
            if (entry->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym)*)entry->d_un.d_ptr;
            if (entry->d_tag == DT_STRTAB) names = (const char*)entry->d_un.d_ptr;
        }
        if (symbols == nullptr || names == nullptr) continue;
        if (calls) redirect(base, calls, call_bytes, symbols, names);
        if (data) redirect(base, data, data_bytes, symbols, names);
    }
    return 0;
}

extern "C" void hook_events() { dl_iterate_phdr(visit, nullptr); }
""",
    flags=["-ldl"],
)
library.hook_events()


class ModelNew(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(4):
            y = torch.softmax(x + 0 * y, dim=1)
        return y
