/// Images as files: depth, colour, labels.
///
/// The type of a file is told by its first bytes, never by its name: PNG, TIFF, and for depth .npy.
/// Images above kMaxPixels are refused before anything is allocated for them, damaged and truncated
/// ones with an error. Nothing is printed, whatever the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/camera.h"

namespace palmist::grasp {

inline constexpr std::int64_t kMaxPixels = 100'000'000;

/// Depth as a file holds it, row by row, in the file's unit: DepthFromValues (camera.h) makes
/// metres of it.
struct DepthValues {
  int width = 0, height = 0;
  std::vector<float> values;
  bool is_integer = false;  ///< of 8 or 16 bits, so millimetres rather than metres
};

/// Object ids, row by row; 0 is the background in GraspNet's files.
struct LabelImage {
  int width = 0, height = 0;
  std::vector<std::uint16_t> ids;

  std::uint16_t at(int u, int v) const { return ids[static_cast<std::size_t>(v) * width + u]; }
};

/// Returns depth from grey PNG (8 or 16 bits), grey TIFF (8 or 16 bits, or float32), or .npy
/// (height, width) of float32, float64, uint8 or uint16. NaN and infinity are kept.
Result<DepthValues> ParseDepthValues(std::string_view bytes);
Result<DepthValues> ReadDepthValues(const std::string& path);

/// Returns colour from PNG (any kind) or TIFF (8 or 16 bits, grey or RGB): grey becomes grey RGB,
/// of 16 bits the upper 8 are kept, alpha is dropped.
Result<ColorImage> ParseColor(std::string_view bytes);
Result<ColorImage> ReadColor(const std::string& path);

/// Returns ids from grey or palette-free PNG or TIFF of 8 or 16 bits, or .npy of uint8 or uint16.
Result<LabelImage> ParseLabels(std::string_view bytes);
Result<LabelImage> ReadLabels(const std::string& path);

/// Writes depth as 16-bit grey PNG, value = round(z_m * units_per_m); an input error where a value
/// is beyond 16 bits.
Result<void> WriteDepthPng(const std::string& path,
                           const DepthImage& depth,
                           double units_per_m = 1000);

/// Writes an RGB PNG of 8 bits.
Result<void> WriteColorPng(const std::string& path, const ColorImage& image);

/// Writes a grey PNG: of 8 bits where all ids are below 256, else of 16.
Result<void> WriteLabelsPng(const std::string& path, const LabelImage& labels);

}  // namespace palmist::grasp
