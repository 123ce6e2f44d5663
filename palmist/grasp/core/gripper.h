/// A parallel gripper as a checked file.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

/// The boxes that a parallel gripper fills at an opening of w, in the frame G of a grasp whose tips
/// are at x = d (grasp.h): two fingers, x in (d - finger_length, d), |y| in (w/2, w/2 + thickness);
/// the palm, x in (d - finger_length - palm_depth, d - finger_length), |y| < w/2 + thickness; both
/// |z| < height/2. Behind the palm lies what the hand and its approach sweep.
struct Gripper {
  std::string name;
  double finger_length_m = 0.06;     ///< from the palm to the tips, along x
  double finger_thickness_m = 0.01;  ///< along y
  double height_m = 0.02;            ///< of fingers and palm, along z
  double min_opening_m = 0.0;
  double max_opening_m = 0.1;
  double palm_depth_m = 0.01;  ///< along x
  double sweep_m = 0.05;       ///< clearance behind the palm that must be free, along x
  /// Where the frame that the robot is commanded to lies, along x from the palm's face: 0 is the
  /// base of the fingers, finger_length_m the tips.
  double grasp_point_m = 0.0;
};

/// What the gripper of GraspNet's evaluation and labels fills in the frame G: |z| < kHalfHeight_m;
/// fingers from x = -kFingersBehind_m to the grasp's depth, a palm of kPalmDepth_m behind them.
inline constexpr double kHalfHeight_m = 0.01;
inline constexpr double kFingerThickness_m = 0.01;
inline constexpr double kFingersBehind_m = 0.02;
inline constexpr double kPalmDepth_m = 0.01;

/// Returns the boxes of the finger at y < 0, the other one and the palm, at an opening of `width_m`
/// and with the tips at x = `depth_m`, in the frame G.
std::array<Box, 3> GripperBoxes(const Gripper& gripper, double width_m, double depth_m);

/// Returns these boxes at a grasp, in the grasp's frame of reference: a closed mesh of 24 vertices
/// and 36 triangles, faces outwards.
TriangleMesh GripperMesh(const Gripper& gripper, const Grasp& grasp);

/// Returns the gripper that YAML text (`palmist_gripper: 1`) describes, or an input error that
/// names the key: unknown, missing, not finite, negative, above 1 m, or against another one. Only
/// min_opening_m, sweep_m and grasp_point_m have defaults.
Result<Gripper> ParseGripper(std::string_view yaml);

/// Returns a preset by name, or the gripper of a file.
Result<Gripper> LoadGripper(const std::string& name_or_path);

/// Returns the names of the presets: graspnet, panda, robotiq-2f-85, robotiq-2f-140, wsg-50.
std::vector<std::string> GripperPresets();

}  // namespace palmist::grasp
