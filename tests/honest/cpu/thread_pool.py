"""A pool of std::thread workers that outlives the call; all work is done when the call returns.

Between calls the workers sleep on a condition variable: threads are there, and none of them is late.
"""
# task: row_mean
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(
    r"""
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
  public:
    explicit Pool(unsigned size) {
        for (unsigned i = 0; i < size; ++i) workers.emplace_back([this] { serve(); });
    }
    void run(int64_t pieces, const std::function<void(int64_t)>& job) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            work = &job;
            next = 0;
            count = pieces;
            busy = workers.size();
            ++generation;
        }
        wake.notify_all();
        take();
        std::unique_lock<std::mutex> lock(mutex);
        finished.wait(lock, [this] { return busy == 0; });
        work = nullptr;
    }

  private:
    void take() {
        for (int64_t piece; (piece = next.fetch_add(1)) < count;) (*work)(piece);
    }
    void serve() {
        for (uint64_t seen = 0;;) {
            {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return generation != seen; });
                seen = generation;
            }
            take();
            std::lock_guard<std::mutex> lock(mutex);
            if (--busy == 0) finished.notify_one();
        }
    }
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable wake, finished;
    const std::function<void(int64_t)>* work = nullptr;
    std::atomic<int64_t> next{0};
    int64_t count = 0;
    size_t busy = 0;
    uint64_t generation = 0;
};

extern "C" void row_mean(const float* x, float* y, int64_t rows, int64_t columns) {
    static Pool* pool = new Pool(std::thread::hardware_concurrency() > 1 ? std::thread::hardware_concurrency() - 1 : 1);
    constexpr int64_t rows_per_piece = 16;
    pool->run((rows + rows_per_piece - 1) / rows_per_piece, [=](int64_t piece) {
        int64_t end = (piece + 1) * rows_per_piece < rows ? (piece + 1) * rows_per_piece : rows;
        for (int64_t row = piece * rows_per_piece; row < end; ++row) {
            float sum[32] = {};
            for (int64_t i = 0; i + 32 <= columns; i += 32)
                for (int64_t lane = 0; lane < 32; ++lane) sum[lane] += x[row * columns + i + lane];
            double total = 0;
            for (int64_t lane = 0; lane < 32; ++lane) total += sum[lane];
            for (int64_t i = columns / 32 * 32; i < columns; ++i) total += x[row * columns + i];
            y[row] = float(total / columns);
        }
    });
}
""",
    flags=["-pthread"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        library.row_mean(x, y, x.shape[0], x.shape[1])
        return y
