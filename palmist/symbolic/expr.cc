#include "palmist/symbolic/expr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "palmist/base/error.h"
#include "palmist/symbolic/node.h"

namespace palmist::symbolic {
namespace internal {
namespace {

/// Mixes `value` into `hash` (the finalizer of splitmix64, Steele et al., OOPSLA 2014).
std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = hash ^ (value + 0x9e3779b97f4a7c15ULL + (hash << 6));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Returns the bits of `value`, with one zero and one NaN.
std::uint64_t CanonicalBits(double value) {
  if (value == 0.0) value = 0.0;
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<std::uint64_t>(value);
}

std::uint64_t HashOf(const Node& node) {
  std::uint64_t hash = Mix(static_cast<std::uint64_t>(node.kind), CanonicalBits(node.value));
  hash = Mix(hash, CanonicalBits(node.divisor));
  hash = Mix(hash, static_cast<std::uint64_t>(node.domain));
  hash = Mix(hash, std::hash<std::string>{}(node.name));
  for (const Expr& operand : node.operands) hash = Mix(hash, Get(operand).hash);
  return hash;
}

struct HashNode {
  std::size_t operator()(const Node* node) const { return node->hash; }
};

struct EqualNodes {
  bool operator()(const Node* a, const Node* b) const {
    return a == b || (a->hash == b->hash && a->kind == b->kind && a->domain == b->domain &&
                      CanonicalBits(a->value) == CanonicalBits(b->value) &&
                      CanonicalBits(a->divisor) == CanonicalBits(b->divisor) &&
                      a->name == b->name && a->operands == b->operands);
  }
};

/// One part of the table of live nodes; several, so that threads seldom wait for each other.
struct Shard {
  std::mutex mutex;
  std::unordered_set<const Node*, HashNode, EqualNodes> nodes;
};

Shard& ShardOf(std::uint64_t hash) {
  // Never destroyed: expressions with static storage may outlive any other static.
  static auto& shards = *new std::array<Shard, 16>;
  return shards[hash >> 60];
}

/// Takes a reference unless the node is already being destroyed.
bool TryRef(const Node* node) {
  std::uint32_t count = node->references.load(std::memory_order_relaxed);
  while (count != 0) {
    if (node->references.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

SignSet SignsOf(const Node& node) {
  const auto operand = [&](std::size_t i) { return Get(node.operands[i]).signs; };
  SignSet signs = 0;
  switch (node.kind) {
    case Kind::kConstant:
      return SignOf(node.value);
    case Kind::kSymbol:
      if (node.domain == Domain::kPositive) return kPositiveBit;
      return node.domain == Domain::kNonnegative ? kZeroBit | kPositiveBit : kAnySign;
    case Kind::kPower:
      signs = operand(0);
      return std::fmod(node.value, 2.0) == 0.0 ? MultiplySigns(signs, signs) & ~kNegativeBit
                                               : signs;
    case Kind::kProduct:
      signs = kPositiveBit;
      for (const Expr& factor : node.operands) signs = MultiplySigns(signs, Get(factor).signs);
      return signs;
    case Kind::kQuotient:
      return MultiplySigns(operand(0), operand(1) & ~kZeroBit);
    case Kind::kScale:
      return MultiplySigns(SignOf(node.value), operand(0));
    case Kind::kSum:
      signs = kZeroBit;
      for (const Expr& term : node.operands) signs = AddSigns(signs, Get(term).signs);
      return signs;
    case Kind::kMin:
    case Kind::kMax: {
      // The result is one of the operands, and no less (max) or no more (min) than any of them.
      // The bits stand in the order of the signs.
      SignSet reachable = kAnySign;
      for (const Expr& e : node.operands) {
        const unsigned s = Get(e).signs;
        signs |= s;
        reachable &=
            node.kind == Kind::kMax ? ~((s & (~s + 1U)) - 1U) : 2U * std::bit_floor(s) - 1U;
      }
      return signs & reachable;
    }
    case Kind::kCeil:
      signs = operand(0);
      return (signs & kNegativeBit) != 0 ? signs | kZeroBit : signs;
    case Kind::kFloor:
      signs = operand(0);
      return (signs & kPositiveBit) != 0 ? signs | kZeroBit : signs;
    case Kind::kSelect:
      return operand(1) | operand(2);
  }
  return kAnySign;
}

bool IsIntegral(const Node& node) {
  const auto all_integral = [&](std::size_t from) {
    return std::all_of(node.operands.begin() + static_cast<std::ptrdiff_t>(from),
                       node.operands.end(),
                       [](const Expr& e) { return Get(e).integral; });
  };
  switch (node.kind) {
    case Kind::kConstant:
      return std::isfinite(node.value) && std::floor(node.value) == node.value;
    case Kind::kCeil:
    case Kind::kFloor:
      return true;
    case Kind::kScale:
      return node.divisor == 1.0 && std::floor(node.value) == node.value && all_integral(0);
    case Kind::kSum:
    case Kind::kProduct:
    case Kind::kPower:
    case Kind::kMin:
    case Kind::kMax:
      return all_integral(0);
    case Kind::kSelect:
      return all_integral(1);
    case Kind::kSymbol:
    case Kind::kQuotient:
      return false;
  }
  return false;
}

int CompareNumbers(double a, double b) {
  if (a < b) return -1;
  if (a > b) return 1;
  const std::uint64_t x = CanonicalBits(a);
  const std::uint64_t y = CanonicalBits(b);
  if (x == y) return 0;
  return std::isnan(a) ? 1 : -1;  // NaN comes last
}

}  // namespace

SignSet SignOf(double value) {
  if (std::isnan(value)) return kAnySign;
  if (value == 0.0) return kZeroBit;
  return value > 0.0 ? kPositiveBit : kNegativeBit;
}

SignSet AddSigns(SignSet a, SignSet b) {
  if (a == kZeroBit) return b;
  if (b == kZeroBit) return a;
  const SignSet all = a | b;
  if ((all & kNegativeBit) != 0 && (all & kPositiveBit) != 0) return kAnySign;
  return (a & b & kZeroBit) != 0 ? all : all & ~kZeroBit;
}

SignSet MultiplySigns(SignSet a, SignSet b) {
  SignSet signs = (a | b) & kZeroBit;
  const bool negative_a = (a & kNegativeBit) != 0;
  const bool negative_b = (b & kNegativeBit) != 0;
  const bool positive_a = (a & kPositiveBit) != 0;
  const bool positive_b = (b & kPositiveBit) != 0;
  if ((positive_a && positive_b) || (negative_a && negative_b)) signs |= kPositiveBit;
  if ((positive_a && negative_b) || (negative_a && positive_b)) signs |= kNegativeBit;
  return signs;
}

void Ref(const Node* node) {
  if (node != nullptr) node->references.fetch_add(1, std::memory_order_relaxed);
}

void Unref(const Node* node) {
  if (node->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A list in place of recursion: chains may be long.
  node->next_dead = nullptr;
  while (node != nullptr) {
    const std::unique_ptr<Node> dead(const_cast<Node*>(node));
    node = dead->next_dead;
    {
      Shard& shard = ShardOf(dead->hash);
      const std::scoped_lock lock(shard.mutex);
      const auto found = shard.nodes.find(dead.get());
      // Another thread may have put a new node of the same structure in its place.
      if (found != shard.nodes.end() && *found == dead.get()) shard.nodes.erase(found);
    }
    for (Expr& operand : dead->operands) {
      const Node* child = NodeAccess::Release(operand);
      if (child->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        child->next_dead = node;
        node = child;
      }
    }
  }
}

Expr NodeAccess::Intern(Kind kind,
                        std::vector<Expr> operands,
                        double value,
                        double divisor,
                        std::string_view name,
                        Domain domain) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->domain = domain;
  node->value = value;
  node->divisor = divisor;
  node->name = name;
  node->operands = std::move(operands);
  node->hash = HashOf(*node);

  Shard& shard = ShardOf(node->hash);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.nodes.find(node.get());
  if (found != shard.nodes.end()) {
    if (TryRef(*found)) return Expr(*found);
    shard.nodes.erase(found);
  }
  static std::atomic<std::uint64_t> next_id{0};
  node->id = next_id.fetch_add(1, std::memory_order_relaxed);
  for (const Expr& operand : node->operands) {
    node->depth = std::max(node->depth, Get(operand).depth + 1);
  }
  node->signs = SignsOf(*node);
  node->integral = IsIntegral(*node);
  node->references.store(1, std::memory_order_relaxed);
  shard.nodes.insert(node.get());
  return Expr(node.release());
}

int Compare(const Expr& left, const Expr& right) {
  const Node* a = &Get(left);
  const Node* b = &Get(right);
  while (a != b) {
    if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (const int order = a->name.compare(b->name); order != 0) return order;
    if (a->domain != b->domain) return a->domain < b->domain ? -1 : 1;
    const std::size_t common = std::min(a->operands.size(), b->operands.size());
    std::size_t i = 0;
    while (i < common && a->operands[i] == b->operands[i]) ++i;
    if (i < common) {
      const Node* next_a = &Get(a->operands[i]);
      const Node* next_b = &Get(b->operands[i]);
      a = next_a;
      b = next_b;
      continue;
    }
    if (a->operands.size() != b->operands.size()) {
      return a->operands.size() < b->operands.size() ? -1 : 1;
    }
    const int order = CompareNumbers(a->value, b->value);
    return order != 0 ? order : CompareNumbers(a->divisor, b->divisor);
  }
  return 0;
}

std::vector<Expr> PostOrder(std::span<const Expr> roots) {
  std::vector<Expr> order;
  std::unordered_set<const Node*> seen;
  struct Visit {
    const Expr* expr;
    std::size_t next_operand;
  };
  std::vector<Visit> stack;
  const auto push = [&](const Expr& expr) {
    if (seen.insert(&Get(expr)).second) stack.push_back({&expr, 0});
  };
  for (const Expr& root : roots) {
    push(root);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::span<const Expr> operands = visit.expr->operands();
      if (visit.next_operand < operands.size()) {
        push(operands[visit.next_operand++]);
      } else {
        order.push_back(*visit.expr);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace internal

using internal::NodeAccess;

Expr::Expr() : Expr(0.0) {}

Expr::Expr(double constant)
    : Expr(NodeAccess::Intern(Kind::kConstant, {}, constant == 0.0 ? 0.0 : constant)) {}

Expr Expr::Symbol(std::string_view name, Domain domain) {
  if (name.empty()) throw UsageError("name", "expected the name of a symbol, got an empty string");
  return NodeAccess::Intern(Kind::kSymbol, {}, 0.0, 1.0, name, domain);
}

Kind Expr::kind() const { return node_->kind; }

double Expr::constant() const {
  PALMIST_ASSERT(kind() == Kind::kConstant);
  return node_->value;
}

const std::string& Expr::name() const {
  PALMIST_ASSERT(kind() == Kind::kSymbol);
  return node_->name;
}

Domain Expr::domain() const {
  PALMIST_ASSERT(kind() == Kind::kSymbol);
  return node_->domain;
}

double Expr::exponent() const {
  PALMIST_ASSERT(kind() == Kind::kPower);
  return node_->value;
}

double Expr::numerator() const {
  PALMIST_ASSERT(kind() == Kind::kScale);
  return node_->value;
}

double Expr::denominator() const {
  PALMIST_ASSERT(kind() == Kind::kScale);
  return node_->divisor;
}

std::span<const Expr> Expr::operands() const { return node_->operands; }

std::uint64_t Expr::id() const { return node_->id; }

bool Expr::IsProvablyPositive() const { return node_->signs == internal::kPositiveBit; }

bool Expr::IsProvablyNonnegative() const { return (node_->signs & internal::kNegativeBit) == 0; }

std::vector<std::string> Symbols(const Expr& expr) {
  std::vector<std::string> names;
  for (const Expr& node : internal::PostOrder({&expr, 1})) {
    if (node.kind() == Kind::kSymbol) names.push_back(node.name());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::size_t NodeCount(std::span<const Expr> roots) { return internal::PostOrder(roots).size(); }

}  // namespace palmist::symbolic
