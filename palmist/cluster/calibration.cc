#include "palmist/cluster/calibration.h"

#include <algorithm>
#include <cctype>

namespace palmist::cluster {
namespace {

constexpr std::array<std::string_view, kNumResources> kResourceNames = {"C", "G2G", "C2G", "G2C"};

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string_view ToString(Resource resource) {
  return kResourceNames[static_cast<std::size_t>(resource)];
}

const SaturationCurve& ComputeEfficiency::GemmCurve(std::string_view dtype) const {
  const auto found = gemm_by_dtype.find(dtype);
  return found == gemm_by_dtype.end() ? gemm : found->second;
}

Interference::Interference() {
  for (auto& row : factor) row.fill(1.0);
}

double MemoryOverheads::CommunicatorBytes(int ranks) const {
  if (ranks <= 1 || communicators.empty()) return 0.0;
  const auto found =
      std::find_if(communicators.begin(), communicators.end(), [&](const CommunicatorCost& cost) {
        return ranks <= cost.max_ranks;
      });
  return found == communicators.end() ? communicators.back().bytes : found->bytes;
}

const DeviceCalibration* Calibration::Find(std::string_view device) const {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const auto& entry) {
    return EqualIgnoringCase(entry.first, device);
  });
  return found == devices.end() ? nullptr : &found->second;
}

const DeviceCalibration& Calibration::For(const Device& device) const {
  const DeviceCalibration* found = Find(device.name);
  PALMIST_ASSERT(found != nullptr);
  return *found;
}

}  // namespace palmist::cluster
