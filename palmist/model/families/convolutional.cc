/// Convolutional networks, in a format of ours (docs/guide/convolutional-models.md): ResNets
/// (He et al., arXiv:1512.03385, with the stride on the 3 x 3 convolution) and the angle-view
/// network of the grasp pipeline: a ResNet with squeeze and excitation (arXiv:1709.01507) in the
/// first block of each stage, then two dense upsampling convolutions (arXiv:1702.08502).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

/// An image inside the network.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0;
};

/// What `input` and `residual` of an operator mean when it reads the block's input.
constexpr int kBlockInput = -2;

/// Appends operators to one block and follows the image through it.
class BlockBuilder {
 public:
  BlockBuilder(std::string name, Image input) : image_(input) {
    block_.name = std::move(name);
    block_.in_channels = input.channels;
    block_.in_height = input.height;
    block_.in_width = input.width;
  }

  Image image() const { return image_; }
  /// Returns the index of the last operator.
  int last() const { return static_cast<int>(block_.ops.size()) - 1; }

  /// Continues from the output of operator `index`, or from the block's input.
  void ReadFrom(int index, Image image) {
    next_input_ = index;
    image_ = image;
  }

  void Conv(const std::string& name,
            std::int64_t out_channels,
            std::int64_t kernel,
            std::int64_t stride,
            bool bias = false) {
    ConvSpec conv;
    conv.in_channels = image_.channels;
    conv.out_channels = out_channels;
    conv.kernel = kernel;
    conv.stride = stride;
    conv.bias = bias;
    Shrink(stride);
    image_.channels = out_channels;
    conv.out_height = image_.height;
    conv.out_width = image_.width;
    Append(ConvOpKind::kConv, name).conv = conv;
  }

  void Linear(const std::string& name, std::int64_t out_features) {
    ConvSpec conv;
    conv.in_channels = image_.channels;
    conv.out_channels = out_features;
    conv.out_height = conv.out_width = 1;
    conv.bias = true;
    image_.channels = out_features;
    Append(ConvOpKind::kLinear, name).conv = conv;
  }

  void BatchNorm(const std::string& name) { Append(ConvOpKind::kBatchNorm, name); }
  void Relu(const std::string& name) { Append(ConvOpKind::kRelu, name); }

  void MaxPool(const std::string& name) {
    Shrink(2);
    Append(ConvOpKind::kMaxPool, name);
  }

  void GlobalPool(const std::string& name) {
    image_.height = image_.width = 1;
    Append(ConvOpKind::kGlobalPool, name);
  }

  void PixelShuffle(const std::string& name) {
    image_ = {image_.channels / 4, image_.height * 2, image_.width * 2};
    Append(ConvOpKind::kPixelShuffle, name);
  }

  void AddResidual(const std::string& name, int residual) {
    Append(ConvOpKind::kAddResidual, name).residual = residual;
  }

  /// Multiplies `scaled` by what the last operator gives for each channel.
  void SigmoidScale(const std::string& name, int scaled, Image image) {
    image_ = image;
    Append(ConvOpKind::kSigmoidScale, name).residual = scaled;
  }

  void Loss(ConvOpKind kind) { Append(kind, "loss"); }

  ConvBlock Take() { return std::move(block_); }

 private:
  /// "Same" padding: an odd kernel with stride t keeps every t-th pixel.
  void Shrink(std::int64_t stride) {
    image_.height = (image_.height + stride - 1) / stride;
    image_.width = (image_.width + stride - 1) / stride;
  }

  ConvOp& Append(ConvOpKind kind, const std::string& name) {
    ConvOp op;
    op.kind = kind;
    op.name = name;
    op.channels = image_.channels;
    op.height = image_.height;
    op.width = image_.width;
    // The first operator of a block has none before it.
    op.input = block_.ops.empty() ? kBlockInput : std::exchange(next_input_, -1);
    block_.ops.push_back(std::move(op));
    return block_.ops.back();
  }

  ConvBlock block_;
  Image image_;
  int next_input_ = -1;
};

/// How a ResNet is built.
struct Backbone {
  std::vector<std::int64_t> depths;  ///< blocks in each stage
  std::vector<std::int64_t> widths;  ///< channels after each stage
  std::int64_t stem = 64;
  bool bottleneck = true;
  bool squeeze = false;  ///< squeeze and excitation in the first block of each stage
};

/// The published networks: number of weighted layers, blocks in each stage, bottlenecks or not.
struct Published {
  std::int64_t layers;
  std::vector<std::int64_t> depths;
  bool bottleneck;
};

const std::vector<Published>& PublishedDepths() {
  static const std::vector<Published> kPublished = {
      {18, {2, 2, 2, 2}, false},
      {34, {3, 4, 6, 3}, false},
      {50, {3, 4, 6, 3}, true},
      {101, {3, 4, 23, 3}, true},
      {152, {3, 8, 36, 3}, true},
  };
  return kPublished;
}

Backbone ReadBackbone(const ConfigReader& config) {
  Backbone net;
  if (config.IsNumber("depths")) {
    const std::int64_t layers = config.Size({"depths"});
    const auto& published = PublishedDepths();
    const auto it = std::find_if(
        published.begin(), published.end(), [&](const Published& p) { return p.layers == layers; });
    if (it == published.end()) {
      config.Fail("depths",
                  fmt::format("expected 18, 34, 50, 101 or 152, got {}", layers),
                  "or give the blocks of each stage, such as [3, 4, 6, 3]");
    }
    net.depths = it->depths;
    net.bottleneck = it->bottleneck;
  } else {
    net.depths = config.Sizes("depths");
    if (net.depths.empty()) net.depths = PublishedDepths()[2].depths;
    const std::string type = config.Text({"layer_type"}, "bottleneck");
    if (type != "bottleneck" && type != "basic") {
      config.Fail("layer_type", "expected \"bottleneck\" or \"basic\"");
    }
    net.bottleneck = type == "bottleneck";
  }
  std::int64_t blocks = 0;
  for (const std::int64_t depth : net.depths) blocks += depth;
  if (net.depths.size() > 16 || blocks > kMaxLayers) {
    config.Fail("depths", fmt::format("expected at most 16 stages and {} blocks", kMaxLayers));
  }

  net.stem = config.Size({"embedding_size"}, 64);
  net.widths = config.Sizes("hidden_sizes");
  if (net.widths.empty()) {
    std::int64_t width = net.bottleneck ? 256 : 64;
    for (std::size_t i = 0; i < net.depths.size(); ++i, width *= 2) net.widths.push_back(width);
  }
  if (net.widths.size() != net.depths.size()) {
    config.Fail("hidden_sizes",
                fmt::format("expected {} entries, one for each stage, got {}",
                            net.depths.size(),
                            net.widths.size()));
  }
  for (std::size_t i = 0; net.bottleneck && i < net.widths.size(); ++i) {
    if (net.widths[i] % 4 != 0) {
      config.Fail(fmt::format("hidden_sizes[{}]", i),
                  fmt::format("expected a multiple of 4, got {}", net.widths[i]));
    }
  }
  return net;
}

ConvBlock Stem(const Backbone& net, Image& image) {
  BlockBuilder block("stem", image);
  block.Conv("conv1", net.stem, 7, 2);
  block.BatchNorm("bn1");
  block.Relu("relu");
  block.MaxPool("maxpool");
  image = block.image();
  return block.Take();
}

/// Pool, two dense layers as wide as the image, sigmoid: a factor for each channel.
void SqueezeAndExcite(BlockBuilder& block) {
  const int scaled = block.last();
  const Image image = block.image();
  block.GlobalPool("se.pool");
  block.Linear("se.fc1", image.channels);
  block.Relu("se.relu");
  block.Linear("se.fc2", image.channels);
  block.SigmoidScale("se.scale", scaled, image);
}

ConvBlock ResidualBlock(const std::string& name,
                        const Backbone& net,
                        std::int64_t width,
                        std::int64_t stride,
                        bool squeeze,
                        Image& image) {
  BlockBuilder block(name, image);
  if (net.bottleneck) {
    block.Conv("conv1", width / 4, 1, 1);
    block.BatchNorm("bn1");
    block.Relu("relu1");
    block.Conv("conv2", width / 4, 3, stride);
    block.BatchNorm("bn2");
    block.Relu("relu2");
    block.Conv("conv3", width, 1, 1);
    block.BatchNorm("bn3");
  } else {
    block.Conv("conv1", width, 3, stride);
    block.BatchNorm("bn1");
    block.Relu("relu1");
    block.Conv("conv2", width, 3, 1);
    block.BatchNorm("bn2");
  }
  if (squeeze) SqueezeAndExcite(block);
  int residual = kBlockInput;
  if (stride != 1 || image.channels != width) {
    const int main = block.last();
    block.ReadFrom(kBlockInput, image);
    block.Conv("downsample.conv", width, 1, stride);
    block.BatchNorm("downsample.bn");
    residual = main;
  }
  block.AddResidual("add", residual);
  block.Relu("relu3");
  image = block.image();
  return block.Take();
}

ConvNetSpec BuildBackbone(const Backbone& net, Image& image) {
  ConvNetSpec spec;
  spec.blocks.push_back(Stem(net, image));
  for (std::size_t stage = 0; stage < net.depths.size(); ++stage) {
    for (std::int64_t i = 0; i < net.depths[stage]; ++i) {
      spec.blocks.push_back(ResidualBlock(fmt::format("layer{}.{}", stage + 1, i),
                                          net,
                                          net.widths[stage],
                                          i == 0 && stage > 0 ? 2 : 1,
                                          net.squeeze && i == 0,
                                          image));
    }
  }
  return spec;
}

/// Dense upsampling: a 3 x 3 convolution to four times the channels, traded for twice the pixels.
/// The first one also shuffles the backbone's output.
ConvBlock Duc(const std::string& name, std::int64_t channels, bool is_first, Image& image) {
  BlockBuilder block(name, image);
  if (is_first) block.PixelShuffle("shuffle0");
  block.Conv("conv", 4 * channels, 3, 1);
  block.BatchNorm("bn");
  block.Relu("relu");
  block.PixelShuffle("shuffle");
  image = block.image();
  return block.Take();
}

}  // namespace

ModelBody ReadResnet(const ConfigReader& config) {
  const Backbone net = ReadBackbone(config);
  const std::int64_t size = config.Size({"image_size"}, 224);
  Image image{config.Size({"num_channels"}, 3), size, size};
  ConvNetSpec spec = BuildBackbone(net, image);
  BlockBuilder head("head", image);
  head.GlobalPool("avgpool");
  head.Linear("fc", config.Size({"num_classes"}, 1000));
  head.Loss(ConvOpKind::kCrossEntropy);
  spec.blocks.push_back(head.Take());
  return spec;
}

ModelBody ReadAvn(const ConfigReader& config) {
  Backbone net = ReadBackbone(config);
  net.squeeze = config.Flag({"squeeze_excitation"}, true);
  if (net.widths.back() % 4 != 0) {
    config.Fail("hidden_sizes", "expected the last width to be a multiple of 4");
  }
  Image image{config.Size({"num_channels"}, 3),
              config.Size({"image_height"}, 288),
              config.Size({"image_width"}, 384)};
  ConvNetSpec spec = BuildBackbone(net, image);

  std::vector<std::int64_t> channels = config.Sizes("duc_channels");
  if (channels.empty()) channels = {512, 512};
  if (channels.size() > 8) config.Fail("duc_channels", "expected at most 8 entries");
  for (std::size_t i = 0; i < channels.size(); ++i) {
    spec.blocks.push_back(Duc(fmt::format("duc{}", i + 1), channels[i], i == 0, image));
  }

  const std::int64_t views = config.Size({"views"}, 60);
  const std::int64_t angles = config.Size({"angles"}, 6);
  BlockBuilder head("head", image);
  head.Conv("conv_out", views * angles, 3, 1, /*bias=*/true);
  head.Loss(ConvOpKind::kMseLoss);
  spec.blocks.push_back(head.Take());
  return spec;
}

}  // namespace palmist::model
