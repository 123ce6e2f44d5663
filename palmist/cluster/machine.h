/// This machine as a cluster of CPU ranks.
#pragma once

#include <string_view>

#include "palmist/cluster/cluster.h"

namespace palmist::cluster {

/// What is known of the machine the program runs on.
struct MachineFacts {
  double memory_bytes = 0.0;  ///< Physical memory.
  int cores = 1;              ///< Hardware threads this process may use.
};

/// Returns the physical memory that the text of /proc/meminfo states, in bytes; 0 where it states
/// none.
double MemTotalBytes(std::string_view meminfo);

/// Returns the facts of this machine; memory is 1 GiB a core where the system does not say.
MachineFacts ThisMachine();

/// Returns one node of `ranks` CPU devices. @pre ranks >= 1
///
/// Each rank has 1/ranks of the memory and max(1, cores / ranks) threads. Rates are prudent
/// defaults by core, shared where ranks outnumber cores: 32 GFLOP/s in fp32 (16 per cycle at 2 GHz,
/// one AVX2 multiply-add a cycle), half of it in bf16 and a quarter in fp16 (both emulated), 4 GB/s
/// of memory bandwidth, and 2 GB/s between ranks with 30 us of latency. Host memory is 0: it is the
/// memory that the ranks already have.
NodeGroup CpuGroup(const MachineFacts& machine, int ranks);

}  // namespace palmist::cluster
