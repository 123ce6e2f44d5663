#include "palmist/grasp/formats/image.h"

#include <fmt/format.h>
#include <png.h>
#include <tiffio.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "palmist/base/npy.h"
#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxFileBytes = kMaxPixels * 8 + kMiB;  // As .npy of float64.
/// More than any of the compressions below can save: a file that claims more is damaged.
constexpr std::int64_t kMaxCompression = 4096;
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Samples as the file has them, row by row, channels interleaved, in the machine's byte order.
struct RawImage {
  int width = 0, height = 0;
  int channels = 1;
  int bits = 8;  // 8, 16 or 32
  bool is_float = false;
  std::vector<std::uint8_t> bytes;

  std::size_t pixels() const { return static_cast<std::size_t>(width) * height; }

  template <typename T>
  T Sample(std::size_t index) const {
    return LoadAs<T>(bytes.data() + index * sizeof(T));
  }
};

Result<void> CheckSize(std::int64_t width,
                       std::int64_t height,
                       std::int64_t bits_per_pixel,
                       std::size_t file_bytes) {
  if (width < 1 || height < 1 || width > kMaxPixels || height > kMaxPixels / width) {
    return InputError(
        {},
        fmt::format("expected an image of 1 to {} pixels, got {} x {}", kMaxPixels, width, height));
  }
  const std::int64_t bytes = width * height * bits_per_pixel / 8;
  if (bytes / kMaxCompression > static_cast<std::int64_t>(file_bytes)) {
    return InputError(
        {},
        fmt::format(
            "damaged image: {} bytes cannot hold {} x {} pixels", file_bytes, width, height));
  }
  return {};
}

// PNG. libpng reports errors by longjmp, which must not pass over objects with destructors: the
// functions that call setjmp have none, and nor have the callbacks.

struct PngSource {
  std::string_view rest;
  char message[128] = "";
};

void OnPngError(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof(source->message) - 1);
  png_longjmp(png, 1);
}

void OnPngWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void ReadPngBytes(png_structp png, png_bytep bytes, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->rest.size()) png_error(png, "the file ends early");
  std::memcpy(bytes, source->rest.data(), count);
  source->rest.remove_prefix(count);
}

struct PngDecoder {
  explicit PngDecoder(std::string_view bytes)
      : source{bytes},
        png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, OnPngError, OnPngWarning)),
        info(png_create_info_struct(png)) {
    if (info == nullptr) throw std::bad_alloc();
    png_set_read_fn(png, &source, ReadPngBytes);
    constexpr png_alloc_size_t kMaxChunkBytes = 1 << 23;
    png_set_chunk_malloc_max(png, kMaxChunkBytes);
    png_set_user_limits(png, kMaxPixels, kMaxPixels);
  }
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  PngSource source;
  png_structp png;
  png_infop info;
};

bool ReadPngHeader(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_info(decoder.png, decoder.info);
  return true;
}

/// Asks for 8-bit RGB whatever the file has.
bool SetPngToRgb(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_expand(decoder.png);
  png_set_strip_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  return true;
}

bool UpdatePngInfo(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_swap(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool ReadPngRows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

Result<RawImage> ParsePng(std::string_view bytes, bool as_rgb) {
  PngDecoder decoder(bytes);
  const auto failed = [&] {
    return InputError({}, fmt::format("damaged PNG: {}", Printable(decoder.source.message)));
  };
  if (!ReadPngHeader(decoder)) return failed();
  RawImage image;
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  image.bits = png_get_bit_depth(decoder.png, decoder.info);
  image.channels = png_get_channels(decoder.png, decoder.info);
  const int color_type = png_get_color_type(decoder.png, decoder.info);
  if (!as_rgb && (color_type != PNG_COLOR_TYPE_GRAY || image.bits < 8)) {
    return InputError({},
                      fmt::format("expected a grey PNG of 8 or 16 bits, got {} of {} bits",
                                  color_type == PNG_COLOR_TYPE_GRAY      ? "grey"
                                  : color_type == PNG_COLOR_TYPE_PALETTE ? "a palette"
                                                                         : "colour or alpha",
                                  image.bits));
  }
  PALMIST_RETURN_IF_ERROR(CheckSize(width, height, image.bits * image.channels, bytes.size()));
  if (as_rgb && !SetPngToRgb(decoder)) return failed();
  if (!UpdatePngInfo(decoder)) return failed();
  image.width = static_cast<int>(width);
  image.height = static_cast<int>(height);
  image.bits = png_get_bit_depth(decoder.png, decoder.info);
  image.channels = png_get_channels(decoder.png, decoder.info);
  const std::size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  image.bytes.resize(row_bytes * static_cast<std::size_t>(height));
  std::vector<png_bytep> rows(static_cast<std::size_t>(height));
  for (std::size_t v = 0; v < rows.size(); ++v) rows[v] = image.bytes.data() + v * row_bytes;
  if (!ReadPngRows(decoder, rows.data())) return failed();
  return image;
}

void WritePngBytes(png_structp png, png_bytep bytes, std::size_t count) {
  auto* sink = static_cast<std::string*>(png_get_io_ptr(png));
  sink->append(reinterpret_cast<const char*>(bytes), count);
}

void FlushPng(png_structp /*png*/) {}

bool EncodePng(
    png_structp png, png_infop info, const RawImage& image, png_bytepp rows, std::string* sink) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, sink, WritePngBytes, FlushPng);
  // Four times as fast as libpng's defaults, for files at most a fifth larger.
  png_set_compression_level(png, 3);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
  png_set_IHDR(png,
               info,
               static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height),
               image.bits,
               image.channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
               PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_set_swap(png);
  png_write_image(png, rows);
  png_write_end(png, nullptr);
  return true;
}

Result<void> WritePng(const std::string& path, RawImage image) {
  if (image.width < 1 || image.height < 1) {
    return InputError(path, fmt::format("an image of {} x {}", image.width, image.height));
  }
  PALMIST_ASSERT(image.bytes.size() == image.pixels() * image.channels * (image.bits / 8));
  PngSource errors;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, OnPngError, OnPngWarning);
  png_infop info = png_create_info_struct(png);
  if (info == nullptr) throw std::bad_alloc();
  const std::size_t row_bytes = image.bytes.size() / static_cast<std::size_t>(image.height);
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (std::size_t v = 0; v < rows.size(); ++v) rows[v] = image.bytes.data() + v * row_bytes;
  std::string file;
  const bool ok = EncodePng(png, info, image, rows.data(), &file);
  png_destroy_write_struct(&png, &info);
  if (!ok) return InputError(path, fmt::format("cannot be made a PNG: {}", errors.message));
  return WriteFileAtomic(path, file);
}

// TIFF, from memory.

struct TiffSource {
  std::string_view bytes;
  std::size_t position = 0;
};

tmsize_t ReadTiffBytes(thandle_t handle, void* buffer, tmsize_t count) {
  auto* source = static_cast<TiffSource*>(handle);
  if (source->position >= source->bytes.size()) return 0;
  const std::size_t taken =
      std::min(static_cast<std::size_t>(count), source->bytes.size() - source->position);
  std::memcpy(buffer, source->bytes.data() + source->position, taken);
  source->position += taken;
  return static_cast<tmsize_t>(taken);
}

toff_t SeekTiff(thandle_t handle, toff_t offset, int whence) {
  auto* source = static_cast<TiffSource*>(handle);
  if (whence == SEEK_CUR) offset += source->position;
  if (whence == SEEK_END) offset += source->bytes.size();
  return source->position = offset;
}

tmsize_t RefuseTiffWrite(thandle_t /*handle*/, void* /*buffer*/, tmsize_t /*count*/) { return 0; }
int CloseTiff(thandle_t /*handle*/) { return 0; }
toff_t TiffSize(thandle_t handle) { return static_cast<TiffSource*>(handle)->bytes.size(); }

/// Stands for "handled", so that libtiff prints nothing.
int IgnoreTiffMessage(
    TIFF* /*tiff*/, void* /*data*/, const char* /*module*/, const char* /*format*/, va_list) {
  return 1;
}

struct TiffCloser {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};

std::unique_ptr<TIFF, TiffCloser> OpenTiff(TiffSource& source) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  TIFFOpenOptionsSetErrorHandlerExtR(options, IgnoreTiffMessage, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options, IgnoreTiffMessage, nullptr);
  // No memory map ('m'), no strips cut into smaller ones ('c').
  TIFF* tiff = TIFFClientOpenExt("image",
                                 "rmc",
                                 &source,
                                 ReadTiffBytes,
                                 RefuseTiffWrite,
                                 SeekTiff,
                                 CloseTiff,
                                 TiffSize,
                                 nullptr,
                                 nullptr,
                                 options);
  TIFFOpenOptionsFree(options);
  return std::unique_ptr<TIFF, TiffCloser>(tiff);
}

std::uint16_t TiffField(TIFF* tiff, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

Result<RawImage> ParseTiff(std::string_view bytes) {
  TiffSource source{bytes};
  const auto tiff = OpenTiff(source);
  if (!tiff) return InputError({}, "damaged TIFF: its directory cannot be read");
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  const int compression = TiffField(tiff.get(), TIFFTAG_COMPRESSION);
  const int photometric = TiffField(tiff.get(), TIFFTAG_PHOTOMETRIC);
  const int format = TiffField(tiff.get(), TIFFTAG_SAMPLEFORMAT);
  RawImage image;
  image.bits = TiffField(tiff.get(), TIFFTAG_BITSPERSAMPLE);
  image.channels = TiffField(tiff.get(), TIFFTAG_SAMPLESPERPIXEL);
  image.is_float = format == SAMPLEFORMAT_IEEEFP;
  const bool known_samples =
      image.is_float ? image.bits == 32
                     : format == SAMPLEFORMAT_UINT && (image.bits == 8 || image.bits == 16);
  const bool known_layout =
      !TIFFIsTiled(tiff.get()) &&
      (image.channels == 1 || TiffField(tiff.get(), TIFFTAG_PLANARCONFIG) == PLANARCONFIG_CONTIG);
  const bool known_color =
      photometric == PHOTOMETRIC_MINISBLACK ? image.channels == 1 || image.channels == 2
      : photometric == PHOTOMETRIC_RGB      ? image.channels == 3 || image.channels == 4
                                            : false;
  const bool known_compression =
      compression == COMPRESSION_NONE || compression == COMPRESSION_LZW ||
      compression == COMPRESSION_PACKBITS || compression == COMPRESSION_DEFLATE ||
      compression == COMPRESSION_ADOBE_DEFLATE;
  if (!known_samples || !known_layout || !known_color || !known_compression) {
    return InputError(
        {},
        fmt::format(
            "expected a TIFF in strips, grey or RGB, of 8 or 16 bits or float32, plain, LZW, "
            "Deflate or PackBits; got {} samples a pixel of {} bits, sample format {}, "
            "photometric {}, compression {}{}",
            image.channels,
            image.bits,
            format,
            photometric,
            compression,
            known_layout ? "" : ", in tiles or planes"));
  }
  const std::size_t pixel_bytes = static_cast<std::size_t>(image.channels) * (image.bits / 8);
  PALMIST_RETURN_IF_ERROR(CheckSize(width, height, image.bits * image.channels, bytes.size()));
  image.width = static_cast<int>(width);
  image.height = static_cast<int>(height);
  image.bytes.resize(image.pixels() * pixel_bytes);
  std::span<std::uint8_t> rest = image.bytes;
  const std::uint32_t strips = TIFFNumberOfStrips(tiff.get());
  for (std::uint32_t strip = 0; strip < strips && !rest.empty(); ++strip) {
    const tmsize_t wanted = std::min(TIFFStripSize(tiff.get()), static_cast<tmsize_t>(rest.size()));
    const tmsize_t got = TIFFReadEncodedStrip(tiff.get(), strip, rest.data(), wanted);
    if (wanted < 1 || got != wanted) {
      return InputError({},
                        fmt::format("damaged TIFF: strip {} of {} cannot be read", strip, strips));
    }
    rest = rest.subspan(static_cast<std::size_t>(got));
  }
  if (!rest.empty()) return InputError({}, "damaged TIFF: it has too few strips");
  return image;
}

Result<RawImage> ParseNpyImage(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(NpyArray array, ParseNpy(bytes));
  if (array.shape.size() != 2) {
    return InputError(
        {},
        fmt::format("expected an array (height, width), got {} dimensions", array.shape.size()));
  }
  PALMIST_RETURN_IF_ERROR(CheckSize(array.shape[1],
                                    array.shape[0],
                                    static_cast<std::int64_t>(NpyItemSize(array.type)) * 8,
                                    bytes.size()));
  RawImage image;
  image.width = static_cast<int>(array.shape[1]);
  image.height = static_cast<int>(array.shape[0]);
  image.bits = static_cast<int>(NpyItemSize(array.type)) * 8;
  image.is_float = array.type == NpyType::kFloat32 || array.type == NpyType::kFloat64;
  if (!image.is_float && array.type != NpyType::kUint8 && array.type != NpyType::kUint16) {
    return InputError({},
                      fmt::format("expected an array of float32, float64, uint8 or uint16, got {}",
                                  ToString(array.type)));
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(array.data.data());
  image.bytes.assign(data, data + array.data.size());
  return image;
}

bool IsTiff(std::string_view bytes) {
  using std::string_view_literals::operator""sv;
  // Little and big endian, each also as BigTIFF.
  return bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv) ||
         bytes.starts_with("II+\0"sv) || bytes.starts_with("MM\0+"sv);
}

/// Returns a grey image of 8 or 16 bits or of floats.
Result<RawImage> ParseGrey(std::string_view bytes) {
  if (bytes.starts_with(kPngMagic)) return ParsePng(bytes, false);
  if (bytes.starts_with(kNpyMagic)) return ParseNpyImage(bytes);
  if (!IsTiff(bytes))
    return InputError({}, "expected a PNG, TIFF or .npy file, it is none of them");
  PALMIST_ASSIGN_OR_RETURN(RawImage image, ParseTiff(bytes));
  if (image.channels != 1) {
    return InputError({}, fmt::format("expected a grey TIFF, got {} channels", image.channels));
  }
  return image;
}

}  // namespace

Result<DepthValues> ParseDepthValues(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const RawImage image, ParseGrey(bytes));
  DepthValues depth{image.width, image.height, {}, !image.is_float};
  depth.values.resize(image.pixels());
  for (std::size_t i = 0; i < depth.values.size(); ++i) {
    depth.values[i] = image.bits == 8    ? image.Sample<std::uint8_t>(i)
                      : image.bits == 16 ? image.Sample<std::uint16_t>(i)
                      : image.bits == 32 ? image.Sample<float>(i)
                                         : static_cast<float>(image.Sample<double>(i));
  }
  return depth;
}

Result<ColorImage> ParseColor(std::string_view bytes) {
  if (!bytes.starts_with(kPngMagic) && !IsTiff(bytes)) {
    return InputError({}, "expected a PNG or TIFF file, it is neither of them");
  }
  PALMIST_ASSIGN_OR_RETURN(const RawImage image,
                           bytes.starts_with(kPngMagic) ? ParsePng(bytes, true) : ParseTiff(bytes));
  if (image.is_float) return InputError({}, "expected colours of 8 or 16 bits, got float32");
  ColorImage color{image.width, image.height, {}};
  color.rgb.resize(image.pixels() * 3);
  for (std::size_t pixel = 0; pixel < image.pixels(); ++pixel) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::size_t i = pixel * image.channels + (image.channels >= 3 ? channel : 0);
      color.rgb[pixel * 3 + channel] =
          image.bits == 8 ? image.Sample<std::uint8_t>(i)
                          : static_cast<std::uint8_t>(image.Sample<std::uint16_t>(i) >> 8);
    }
  }
  return color;
}

Result<LabelImage> ParseLabels(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const RawImage image, ParseGrey(bytes));
  if (image.is_float) return InputError({}, "expected ids of 8 or 16 bits, got floats");
  LabelImage labels{image.width, image.height, {}};
  labels.ids.resize(image.pixels());
  for (std::size_t i = 0; i < labels.ids.size(); ++i) {
    labels.ids[i] =
        image.bits == 8 ? image.Sample<std::uint8_t>(i) : image.Sample<std::uint16_t>(i);
  }
  return labels;
}

Result<DepthValues> ReadDepthValues(const std::string& path) {
  return ParseFile(path, kMaxFileBytes, ParseDepthValues);
}

Result<ColorImage> ReadColor(const std::string& path) {
  return ParseFile(path, kMaxFileBytes, ParseColor);
}

Result<LabelImage> ReadLabels(const std::string& path) {
  return ParseFile(path, kMaxFileBytes, ParseLabels);
}

Result<void> WriteDepthPng(const std::string& path, const DepthImage& depth, double units_per_m) {
  RawImage image{depth.width, depth.height, 1, 16, false, {}};
  image.bytes.resize(image.pixels() * 2);
  for (std::size_t i = 0; i < image.pixels(); ++i) {
    const double value = std::round(depth.z_m[i] * units_per_m);
    // Written so that NaN is refused, too.
    if (!(value >= 0 && value <= 65535)) {
      return InputError(path,
                        fmt::format("a depth of {} m at {} units a metre does not fit into 16 bits",
                                    depth.z_m[i],
                                    units_per_m));
    }
    const auto stored = static_cast<std::uint16_t>(value);
    std::memcpy(image.bytes.data() + i * 2, &stored, 2);
  }
  return WritePng(path, std::move(image));
}

Result<void> WriteColorPng(const std::string& path, const ColorImage& color) {
  return WritePng(path, RawImage{color.width, color.height, 3, 8, false, color.rgb});
}

Result<void> WriteLabelsPng(const std::string& path, const LabelImage& labels) {
  const bool fits_byte =
      std::all_of(labels.ids.begin(), labels.ids.end(), [](std::uint16_t id) { return id < 256; });
  RawImage image{labels.width, labels.height, 1, fits_byte ? 8 : 16, false, {}};
  if (fits_byte) {
    image.bytes.assign(labels.ids.begin(), labels.ids.end());
  } else {
    const auto* data = reinterpret_cast<const std::uint8_t*>(labels.ids.data());
    image.bytes.assign(data, data + labels.ids.size() * 2);
  }
  return WritePng(path, std::move(image));
}

}  // namespace palmist::grasp
