#include <gtest/gtest.h>

#include "palmist/symbolic/expr.h"

namespace palmist::symbolic {
namespace {

const Expr b = Expr::Symbol("b");
const Expr h = Expr::Symbol("h");
const Expr s = Expr::Symbol("s");
const Expr tp = Expr::Symbol("tp");
const Expr F = Expr::Symbol("F");
const Expr r = Expr::Symbol("offload_w", Domain::kNonnegative);

struct Case {
  Expr expr;
  const char* text;
  const char* latex;
};

TEST(Print, GivesGoldenForms) {
  const Case cases[] = {
      {0, "0", "0"},
      {-2.5, "-2.5", "-2.5"},
      {1557611200, "1557611200", "1557611200"},
      {1e-9, "1e-09", R"(1 \times 10^{-9})"},
      {Expr(1) / 0, "inf", R"(\infty)"},
      {h, "h", "h"},
      {tp, "tp", R"(\mathrm{tp})"},
      {r, "offload_w", R"(\mathrm{offload}_{w})"},
      {Expr::Symbol("x_12"), "x_12", "x_{12}"},
      {Expr::Symbol("50%_a_b"), "50%_a_b", R"(\mathrm{50\%}_{\mathrm{a\_b}})"},
      {-h, "-h", "-h"},
      {h / 2, "h/2", R"(\frac{h}{2})"},
      {-3 * h / 8, "-3*h/8", R"(-\frac{3 \, h}{8})"},
      {2.5 * h, "2.5*h", R"(2.5 \, h)"},
      {h / 3, "h/3", R"(\frac{h}{3})"},
      {3 / tp, "3/tp", R"(\frac{3}{\mathrm{tp}})"},
      {1 - r, "1 - offload_w", R"(1 - \mathrm{offload}_{w})"},
      {s - b, "s - b", "s - b"},
      {-b - s, "-b - s", "-b - s"},
      {b * (1 - r), "b*(1 - offload_w)", R"(b \, \left(1 - \mathrm{offload}_{w}\right))"},
      {-2 * (b + s), "-2*(b + s)", R"(-2 \, \left(b + s\right))"},
      {(b + s) / (h - s), "(b + s)/(h - s)", R"(\frac{b + s}{h - s})"},
      {h / (3 * tp * b), "h/(3*b*tp)", R"(\frac{h}{3 \, b \, \mathrm{tp}})"},
      {Power(b + s, 3), "(b + s)^3", R"(\left(b + s\right)^{3})"},
      {b / Power(h, 2), "b/h^2", R"(\frac{b}{h^{2}})"},
      {4 * h + Expand((4 * h * h + 2 * h * F) / tp),
       "4*h + 4*h^2/tp + 2*F*h/tp",
       R"(4 \, h + \frac{4 \, h^{2}}{\mathrm{tp}} + \frac{2 \, F \, h}{\mathrm{tp}})"},
      {CeilDiv(b * s, 8 * tp),
       "ceil(b*s/(8*tp))",
       R"(\left\lceil \frac{b \, s}{8 \, \mathrm{tp}} \right\rceil)"},
      {Floor(s / b), "floor(s/b)", R"(\left\lfloor \frac{s}{b} \right\rfloor)"},
      {2 * Max(Min(b, s), h) + 1,
       "2*max(h, min(b, s)) + 1",
       R"(2 \, \max\left(h, \min\left(b, s\right)\right) + 1)"},
      {h / -Max(b, s), "-h/max(b, s)", R"(-\frac{h}{\max\left(b, s\right)})"},
      {Select(b - s, h, -s),
       "select(b - s, h, -s)",
       R"(\begin{cases} h & b - s > 0 \\ -s & \text{otherwise} \end{cases})"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ToText(c.expr), c.text);
    EXPECT_EQ(ToLatex(c.expr), c.latex);
  }
}

TEST(Print, DoesNotDependOnTheOrderOfConstruction) {
  // Names not used elsewhere: in the first text q is made before p, in the second after it.
  const auto text = [](const char* first, const char* second) {
    const Expr x = Expr::Symbol(first);
    const Expr y = Expr::Symbol(second);
    return ToText(Max(x + 2 * y, y * x) + x / y);
  };
  const std::string golden = "p/q + max(p*q, p + 2*q)";
  {
    const Expr q = Expr::Symbol("q");
    const Expr p = Expr::Symbol("p");
    EXPECT_LT(q.id(), p.id());
    EXPECT_EQ(text("p", "q"), golden);
  }
  const Expr p = Expr::Symbol("p");
  const Expr q = Expr::Symbol("q");
  EXPECT_LT(p.id(), q.id());
  EXPECT_EQ(text("p", "q"), golden);
}

}  // namespace
}  // namespace palmist::symbolic
