#include "palmist/grasp/formats/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace palmist::grasp {

Result<std::string> Inflate(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes) {
  z_stream stream = {};
  // The sign is zlib's way to say that there is no header.
  const int window_bits = wrapping == Wrapping::kZlib ? MAX_WBITS : -MAX_WBITS;
  std::string plain(std::min(max_bytes, (packed.size() + 1) * kMaxDeflateRatio), '\0');
  if (inflateInit2(&stream, window_bits) != Z_OK) throw std::bad_alloc();
  std::size_t taken = 0, made = 0;
  int status = Z_OK;
  // zlib counts in 32 bits.
  constexpr std::size_t kStep = 1U << 30;
  while (status == Z_OK) {
    const std::size_t input = std::min(kStep, packed.size() - taken);
    const std::size_t output = std::min(kStep, plain.size() - made);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())) + taken;
    stream.next_out = reinterpret_cast<Bytef*>(plain.data()) + made;
    stream.avail_in = static_cast<uInt>(input);
    stream.avail_out = static_cast<uInt>(output);
    status = inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    made += output - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) {
    return InputError({}, "its compressed data is damaged, cut off, or larger than it should be");
  }
  plain.resize(made);
  return plain;
}

}  // namespace palmist::grasp
