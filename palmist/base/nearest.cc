#include "palmist/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "palmist/base/text.h"

namespace palmist {
namespace {

/// Longer queries are no slip of a known name, and the distance takes time by their length.
constexpr std::size_t kMaxQueryBytes = 100;

/// Returns how many characters must be added, removed or replaced to turn `a` into `b`.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Returns the largest distance that may be a slip in a name of `size` characters.
std::size_t Reach(std::size_t size) { return std::max<std::size_t>(1, (size + 2) / 3); }

}  // namespace

std::vector<std::string> NearestNames(std::string_view query,
                                      std::span<const std::string> candidates,
                                      std::size_t k) {
  std::vector<std::pair<std::size_t, std::string>> near;
  if (query.empty() || query.size() > kMaxQueryBytes) return {};
  const std::string wanted = AsciiLower(query);
  for (const std::string& candidate : candidates) {
    const std::string name = AsciiLower(candidate);
    const std::size_t distance = EditDistance(wanted, name);
    const bool shares_something = distance < std::max(wanted.size(), name.size());
    if ((distance <= Reach(wanted.size()) && shares_something) || name.starts_with(wanted)) {
      near.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(
      near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(std::min(k, near.size()));
  std::vector<std::string> names;
  names.reserve(near.size());
  for (auto& [distance, name] : near) names.push_back(std::move(name));
  return names;
}

std::string DidYouMean(std::string_view query, std::span<const std::string> candidates) {
  const std::vector<std::string> names = NearestNames(query, candidates);
  if (names.empty()) return {};
  std::string hint = "did you mean " + names[0];
  for (std::size_t i = 1; i < names.size(); ++i) {
    hint += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return hint + "?";
}

}  // namespace palmist
