/// Feeds bytes to the readers of this folder; what is accepted must be in its bounds.
#include <cstdint>
#include <string_view>

#include "palmist/base/npy.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/gripper.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace palmist;
  using namespace palmist::grasp;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);

  if (const auto camera = ParseIntrinsics(bytes, 640, 480); camera.ok())
    PALMIST_ASSERT(CheckIntrinsics(*camera, 640, 480).ok());
  if (const auto pose = ParseHandEye(bytes); pose.ok())
    PALMIST_ASSERT(CheckRotation(pose->linear(), "R", 1e-9).ok());
  if (const auto gripper = ParseGripper(bytes); gripper.ok())
    PALMIST_ASSERT(gripper->min_opening_m < gripper->max_opening_m);
  if (const auto array = ParseNpy(bytes); array.ok()) {
    if (const auto grasps = GraspGroupFromArray(*array); grasps.ok()) {
      const auto again = GraspGroupFromArray(ToArray(*grasps));
      PALMIST_ASSERT(again.ok() && again->size() == grasps->size());
    }
    if (const auto grasps = RectGraspsFromArray(*array); grasps.ok())
      PALMIST_ASSERT(RectGraspsFromArray(ToArray(*grasps)).ok());
  }
  return 0;
}
