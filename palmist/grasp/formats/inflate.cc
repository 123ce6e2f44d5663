#include "palmist/grasp/formats/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "palmist/base/error.h"

namespace palmist::grasp {
namespace {

struct Inflated {
  std::string plain;
  bool complete = false;
};

Inflated InflateUpTo(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes) {
  z_stream stream = {};
  // The sign is zlib's way to say that there is no header.
  const int window_bits = wrapping == Wrapping::kZlib ? MAX_WBITS : -MAX_WBITS;
  std::string plain(std::min(max_bytes, (packed.size() + 1) * kMaxDeflateRatio), '\0');
  if (inflateInit2(&stream, window_bits) != Z_OK) throw std::bad_alloc();
  std::size_t taken = 0, made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t input = std::min(kZlibStepBytes, packed.size() - taken);
    const std::size_t output = std::min(kZlibStepBytes, plain.size() - made);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())) + taken;
    stream.next_out = reinterpret_cast<Bytef*>(plain.data()) + made;
    stream.avail_in = static_cast<uInt>(input);
    stream.avail_out = static_cast<uInt>(output);
    status = inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    made += output - stream.avail_out;
  }
  inflateEnd(&stream);
  plain.resize(made);
  return {std::move(plain), status == Z_STREAM_END};
}

}  // namespace

Result<std::string> Inflate(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes) {
  Inflated inflated = InflateUpTo(packed, wrapping, max_bytes);
  if (!inflated.complete) {
    return InputError({}, "its compressed data is damaged, cut off, or larger than it should be");
  }
  return std::move(inflated.plain);
}

std::string InflateStart(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes) {
  return InflateUpTo(packed, wrapping, max_bytes).plain;
}

std::string Deflate(std::string_view plain, std::size_t step_bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream,
                   Z_DEFAULT_COMPRESSION,
                   Z_DEFLATED,
                   -MAX_WBITS,
                   MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string packed;
  std::vector<char> buffer(1U << 20);
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const std::string_view step = plain.substr(0, step_bytes);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(step.data()));
      stream.avail_in = static_cast<uInt>(step.size());
      plain.remove_prefix(step.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&stream, plain.empty() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  PALMIST_ASSERT(status == Z_STREAM_END);
  return packed;
}

}  // namespace palmist::grasp
