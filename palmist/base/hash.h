/// A hash of bytes that is the same on every machine: for keys of files, not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace palmist {

/// Hashes bytes in their order: FNV-1a with 64 bits.
/// Source: G. Fowler, L. Noll, K.-P. Vo, the FNV hash (draft-eastlake-fnv).
class Fnv1a {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }

  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace palmist
