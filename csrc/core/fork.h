// Locks that a fork must not leave taken: the child has only the thread that forked, so nobody would release them.
#pragma once

#include <cstdint>
#include <mutex>

namespace tocha {

// Whoever holds one of these may still take those below it; a fork takes them in the same order.
enum class ForkOrder { Generator, Pool, Allocator, Recorder, History };

// The mutex must live as long as the process.
void hold_across_fork(std::mutex& mutex, ForkOrder order);

// How often this process has forked, itself included when it is a fork's child.
uint64_t fork_count();
// How many forks lie between this process and the one that loaded the library.
uint64_t fork_depth();

}  // namespace tocha
