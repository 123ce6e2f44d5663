// Parses any bytes as labels of an object; grasps that come out are finite and within the options.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/label/label_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace palmist::grasp;
  const auto labels = ParseGraspLabels({reinterpret_cast<const char*>(data), size});
  if (!labels.ok()) return 0;
  for (const GraspLabel& label : labels->grasps) {
    const Grasp grasp = GraspOf(*labels, label);
    if (!grasp.p_CG.allFinite() || !CheckRotation(grasp.R_CG, "grasp").ok()) __builtin_trap();
    if (!(grasp.width_m <= 0.14 && grasp.score <= 1)) __builtin_trap();
  }
  return 0;
}
