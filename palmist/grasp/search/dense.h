/// The plain reference of fas.h: every candidate, width and distance against every point.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "palmist/grasp/search/fas.h"

namespace palmist::grasp {

/// Returns what SearchWidthAndDistance returns, in O(candidates · settings · points) as the public
/// code has it: for tests, and as the peer of its speed. One thread.
/// @throws Error as MakeSearchSpace
std::vector<std::optional<FasFit>> SearchWidthAndDistanceDensely(
    std::span<const Vector3d> points,
    std::span<const Candidate> candidates,
    const Gripper& gripper,
    const FasOptions& options,
    std::span<const Vector3d> hidden = {});

}  // namespace palmist::grasp
