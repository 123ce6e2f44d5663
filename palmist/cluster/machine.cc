#include "palmist/cluster/machine.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "palmist/base/error.h"
#include "palmist/base/file.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {

double MemTotalBytes(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemTotal:";
  constexpr double kKib = 1024.0;
  const std::size_t key = meminfo.find(kKey);
  if (key == std::string_view::npos) return 0.0;
  std::string_view rest = meminfo.substr(key + kKey.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  double kib = 0.0;
  std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  return kib * kKib;
}

MachineFacts ThisMachine() {
  MachineFacts facts;
  facts.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto meminfo = ReadFile("/proc/meminfo", kMiB);
  if (meminfo.ok()) facts.memory_bytes = MemTotalBytes(*meminfo);
  if (facts.memory_bytes <= 0.0) facts.memory_bytes = facts.cores * kGib;
  return facts;
}

NodeGroup CpuGroup(const MachineFacts& machine, int ranks) {
  PALMIST_ASSERT(ranks >= 1);
  constexpr double kFlopsPerCore = 32e9;
  constexpr double kMemoryBytesPerCore = 4e9;
  constexpr double kBytesPerSBetweenRanks = 2e9;
  constexpr double kLatencyS = 30e-6;
  const int threads = std::max(1, machine.cores / ranks);
  const double cores = std::min<double>(threads, static_cast<double>(machine.cores) / ranks);

  NodeGroup group;
  group.devices_per_node = ranks;
  Device& device = group.device;
  device.name = "CPU";
  device.is_cpu = true;
  device.threads = threads;
  device.memory_bytes = machine.memory_bytes / ranks;
  device.memory_bytes_per_s = cores * kMemoryBytesPerCore;
  device.flops_per_s = {{"fp32", cores * kFlopsPerCore},
                        {"bf16", cores * kFlopsPerCore / 2},
                        {"fp16", cores * kFlopsPerCore / 4}};
  group.intra_node = {"shared memory", kBytesPerSBetweenRanks, kLatencyS};
  return group;
}

}  // namespace palmist::cluster
