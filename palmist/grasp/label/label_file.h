/// Labels of an object as a file; the layout is in README.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/grasp/formats/npz.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// Most candidates of dense labels: 17 bytes each, and NumPy's .npz has 4 GiB at most an array.
inline constexpr std::int64_t kMaxDenseCells = 300'000'000;

/// Writes labels as a sparse .npz, whole or not at all; the same bytes for the same labels.
Result<void> WriteGraspLabels(const std::string& path, const ObjectLabels& labels);

/// Returns the labels of such a file, with `threads` 1, or an input error that names the array:
/// missing, of another type or shape, or a value out of range.
Result<ObjectLabels> ParseGraspLabels(std::string_view bytes);

/// The same of a file; errors name its path.
Result<ObjectLabels> ReadGraspLabels(const std::string& path);

/// Returns GraspNet-1Billion's arrays: points (P, 3), offsets (P, V, A, D, 3) with the angle in
/// radians, depth and width in metres, collision and scores (P, V, A, D). A score is the smallest
/// friction that holds, -1 for none. What is not listed in `labels` has collision, width 0 and
/// score -1. An input error above kMaxDenseCells.
Result<NpzArrays> ToDenseLabels(const ObjectLabels& labels);

/// Returns whether two sets of options make the same labels of a mesh.
bool MakeSameLabels(const LabelOptions& a, const LabelOptions& b);

}  // namespace palmist::grasp
