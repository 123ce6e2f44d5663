#include "palmist/grasp/formats/mat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/grasp/formats/inflate.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxMatBytes = 64 * kMiB;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kVersionOffset = 124;
constexpr std::uint16_t kVersion = 0x0100;
constexpr std::uint16_t kLittleEndianMark = 0x4d49;  // "MI", stored as "IM".

// Types of elements.
constexpr std::uint32_t kInt8 = 1, kUint8 = 2, kInt16 = 3, kUint16 = 4, kInt32 = 5, kUint32 = 6,
                        kSingle = 7, kDouble = 9, kInt64 = 12, kUint64 = 13, kMatrix = 14,
                        kCompressed = 15;
// Classes of arrays: the numeric ones, from double to uint64, follow each other.
constexpr std::uint8_t kDoubleClass = 6, kUint64Class = 15;
constexpr std::uint8_t kComplexFlag = 8;

Error Bad(const std::string& message) { return InputError({}, "bad .mat file: " + message); }

struct Element {
  std::uint32_t type = 0;
  std::string_view data;
};

/// Takes the first element, and the bytes that align what follows, off `rest`.
Result<Element> TakeElement(std::string_view& rest) {
  constexpr std::size_t kTagBytes = 8, kSmallDataOffset = 4;
  if (rest.size() < kTagBytes) return Bad("it ends inside an element's tag");
  const auto word = LoadAs<std::uint32_t>(rest.data());
  Element element{word, {}};
  std::size_t taken = kTagBytes;
  if (const std::uint32_t small_bytes = word >> 16; small_bytes != 0) {
    if (small_bytes > 4) return Bad("a small element of more than 4 bytes");
    element.type = word & 0xffffU;
    element.data = rest.substr(kSmallDataOffset, small_bytes);
  } else {
    const std::size_t bytes = LoadAs<std::uint32_t>(rest.data() + 4);
    if (bytes > rest.size() - kTagBytes) {
      return Bad(
          fmt::format("an element of {} bytes, {} are left", bytes, rest.size() - kTagBytes));
    }
    element.data = rest.substr(kTagBytes, bytes);
    taken += element.type == kCompressed ? bytes : (bytes + 7) / 8 * 8;
  }
  rest.remove_prefix(std::min(taken, rest.size()));
  return element;
}

template <typename T>
std::vector<double> ToDoubles(std::string_view data) {
  std::vector<double> numbers(data.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(LoadAs<T>(data.data() + i * sizeof(T)));
  }
  return numbers;
}

std::optional<std::vector<double>> Numbers(const Element& element) {
  switch (element.type) {
    case kInt8:
      return ToDoubles<std::int8_t>(element.data);
    case kUint8:
      return ToDoubles<std::uint8_t>(element.data);
    case kInt16:
      return ToDoubles<std::int16_t>(element.data);
    case kUint16:
      return ToDoubles<std::uint16_t>(element.data);
    case kInt32:
      return ToDoubles<std::int32_t>(element.data);
    case kUint32:
      return ToDoubles<std::uint32_t>(element.data);
    case kSingle:
      return ToDoubles<float>(element.data);
    case kDouble:
      return ToDoubles<double>(element.data);
    case kInt64:
      return ToDoubles<std::int64_t>(element.data);
    case kUint64:
      return ToDoubles<std::uint64_t>(element.data);
    default:
      return std::nullopt;
  }
}

/// A real numeric array; the first index runs fastest.
struct Variable {
  std::vector<double> dims;
  std::vector<double> values;
};

constexpr std::string_view kIntrinsicMatrix = "intrinsic_matrix";
constexpr std::string_view kFactorDepth = "factor_depth";
constexpr std::string_view kClsIndexes = "cls_indexes";
constexpr std::string_view kPoses = "poses";

using Variables = std::map<std::string, Variable, std::less<>>;

/// Adds the variable of a matrix element where it is one of ours.
Result<void> AddMatrix(std::string_view matrix, Variables& variables) {
  PALMIST_ASSIGN_OR_RETURN(const Element flags, TakeElement(matrix));
  PALMIST_ASSIGN_OR_RETURN(const Element dims, TakeElement(matrix));
  PALMIST_ASSIGN_OR_RETURN(const Element name, TakeElement(matrix));
  if (name.data != kIntrinsicMatrix && name.data != kFactorDepth && name.data != kClsIndexes &&
      name.data != kPoses) {
    return {};
  }
  const std::string field(name.data);
  if (flags.data.size() < 2) return InputError(field, "bad .mat file: it has no class");
  const auto array_class = static_cast<std::uint8_t>(flags.data[0]);
  const auto array_flags = static_cast<std::uint8_t>(flags.data[1]);
  if (array_class < kDoubleClass || array_class > kUint64Class ||
      (array_flags & kComplexFlag) != 0) {
    return InputError(field, "expected an array of real numbers");
  }
  PALMIST_ASSIGN_OR_RETURN(const Element real, TakeElement(matrix));
  auto sizes = Numbers(dims);
  auto values = Numbers(real);
  if (!sizes || !values) return InputError(field, "bad .mat file: its elements are no numbers");
  for (const double value : *values) {
    if (!std::isfinite(value)) return InputError(field, "expected finite numbers");
  }
  double count = 1;
  for (const double size : *sizes) count *= size;
  if (count != static_cast<double>(values->size())) {
    return InputError(
        field, fmt::format("expected {} values for its shape, got {}", count, values->size()));
  }
  variables.insert_or_assign(field, Variable{std::move(*sizes), std::move(*values)});
  return {};
}

Result<Variables> ParseVariables(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes ||
      LoadAs<std::uint16_t>(bytes.data() + kVersionOffset) != kVersion ||
      LoadAs<std::uint16_t>(bytes.data() + kVersionOffset + 2) != kLittleEndianMark) {
    return Bad("expected MATLAB's level 5 format, little-endian; save it with -v6 or -v7");
  }
  std::string_view rest = bytes.substr(kHeaderBytes);
  auto budget = static_cast<std::uint64_t>(kMaxMatBytes);
  Variables variables;
  while (!rest.empty()) {
    PALMIST_ASSIGN_OR_RETURN(Element element, TakeElement(rest));
    std::string inflated;
    if (element.type == kCompressed) {
      PALMIST_ASSIGN_OR_RETURN(inflated, Inflate(element.data, Wrapping::kZlib, budget));
      budget -= inflated.size();
      std::string_view plain = inflated;
      PALMIST_ASSIGN_OR_RETURN(element, TakeElement(plain));
    }
    if (element.type == kMatrix) PALMIST_RETURN_IF_ERROR(AddMatrix(element.data, variables));
  }
  return variables;
}

/// Returns the variable; an error where it is missing or has another shape than `dims`, of which -1
/// is any size.
Result<Variable> Find(const Variables& variables,
                      std::string_view name,
                      const std::vector<int>& dims) {
  const auto found = variables.find(name);
  if (found == variables.end()) return InputError(std::string(name), "is missing");
  const std::vector<double>& shape = found->second.dims;
  bool fits = shape.size() == dims.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    fits = dims[i] == -1 || shape[i] == dims[i];
  }
  if (!fits) {
    return InputError(
        std::string(name),
        fmt::format(
            "expected the shape ({}), got ({})", fmt::join(dims, ", "), fmt::join(shape, ", ")));
  }
  return found->second;
}

void AppendElement(std::string& bytes, std::uint32_t type, std::string_view data) {
  AppendBytes(bytes, type);
  AppendBytes(bytes, static_cast<std::uint32_t>(data.size()));
  bytes += data;
  bytes.append((8 - data.size() % 8) % 8, '\0');
}

void AppendVariable(std::string& file,
                    std::string_view name,
                    const std::vector<std::int32_t>& dims,
                    const std::vector<double>& values) {
  std::string matrix;
  constexpr char kFlags[8] = {kDoubleClass};
  AppendElement(matrix, kUint32, {kFlags, sizeof(kFlags)});
  std::string sizes;
  for (const std::int32_t size : dims) AppendBytes(sizes, size);
  AppendElement(matrix, kInt32, sizes);
  AppendElement(matrix, kInt8, name);
  AppendElement(matrix,
                kDouble,
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  AppendElement(file, kMatrix, matrix);
}

}  // namespace

Result<FrameMeta> ParseFrameMeta(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(Variables variables, ParseVariables(bytes));
  // MATLAB drops a last dimension of 1, which one object has.
  if (const auto poses = variables.find(kPoses);
      poses != variables.end() && poses->second.dims.size() == 2) {
    poses->second.dims.push_back(1);
  }
  FrameMeta meta;
  PALMIST_ASSIGN_OR_RETURN(const Variable matrix, Find(variables, kIntrinsicMatrix, {3, 3}));
  PALMIST_ASSIGN_OR_RETURN(const Variable factor, Find(variables, kFactorDepth, {1, 1}));
  PALMIST_ASSIGN_OR_RETURN(const Variable indexes, Find(variables, kClsIndexes, {-1, -1}));
  PALMIST_ASSIGN_OR_RETURN(const Variable poses, Find(variables, kPoses, {3, 4, -1}));
  meta.intrinsic_matrix = Eigen::Map<const Matrix3d>(matrix.values.data());
  meta.factor_depth = factor.values[0];
  if (!(meta.factor_depth > 0)) {
    return InputError(std::string(kFactorDepth),
                      fmt::format("expected more than 0, got {}", meta.factor_depth));
  }
  for (const double index : indexes.values) {
    if (index != std::floor(index) || index < 0 || index > 0xffff) {
      return InputError(std::string(kClsIndexes),
                        fmt::format("expected integers of 0 to 65535, got {}", index));
    }
    meta.cls_indexes.push_back(static_cast<int>(index));
  }
  constexpr std::size_t kPoseValues = 12;
  if (poses.values.size() != meta.cls_indexes.size() * kPoseValues) {
    return InputError(std::string(kPoses),
                      fmt::format("expected {} poses, one for each of cls_indexes, got {}",
                                  meta.cls_indexes.size(),
                                  poses.values.size() / kPoseValues));
  }
  for (std::size_t i = 0; i < meta.cls_indexes.size(); ++i) {
    meta.poses.emplace_back(
        Eigen::Map<const Eigen::Matrix<double, 3, 4>>(poses.values.data() + i * kPoseValues));
  }
  return meta;
}

Result<FrameMeta> ReadFrameMeta(const std::string& path) {
  return ParseFile(path, kMaxMatBytes, ParseFrameMeta);
}

Result<void> WriteFrameMeta(const std::string& path, const FrameMeta& meta) {
  PALMIST_ASSERT(meta.poses.size() == meta.cls_indexes.size());
  std::string file = "MATLAB 5.0 MAT-file";
  file.resize(kVersionOffset - 8, ' ');
  file.append(8, '\0');  // No data of subsystems.
  AppendBytes(file, kVersion);
  AppendBytes(file, kLittleEndianMark);

  const auto count = static_cast<std::int32_t>(meta.poses.size());
  std::vector<double> poses;
  for (const auto& pose : meta.poses) poses.insert(poses.end(), pose.data(), pose.data() + 12);
  AppendVariable(file,
                 kIntrinsicMatrix,
                 {3, 3},
                 {meta.intrinsic_matrix.data(), meta.intrinsic_matrix.data() + 9});
  AppendVariable(file, kFactorDepth, {1, 1}, {meta.factor_depth});
  AppendVariable(file, kClsIndexes, {count, 1}, {meta.cls_indexes.begin(), meta.cls_indexes.end()});
  AppendVariable(file, kPoses, {3, 4, count}, poses);
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp
