// Made by palmist/kernels/testdata/gelu_inverse.py; run it (with NumPy) to make it anew.
// clang-format off
#pragma once

namespace palmist::kernels {

/// ln(1 + f) = f + f^2 p(f), powers of p ascending, for f from sqrt(1/2) - 1 to sqrt(2) - 1.
inline constexpr float kLog1pCoefficients[] = {
    -0.49999997f,
    0.333333313f,
    -0.250007808f,
    0.200012341f,
    -0.166266456f,
    0.142048553f,
    -0.13127555f,
    0.127226725f,
    -0.0767364129f};

/// Beyond it exp(-a^2/2), and so the output of the erf form, is 0 in float.
inline constexpr float kErfEnd = 14.5f;
inline constexpr float kMillsShift = 4.0f;
/// Phi(-a) exp(a^2/2) (a + shift) = p(t), t = (a - shift) / (a + shift), for a from 0 to kErfEnd.
inline constexpr float kMillsCoefficients[] = {
    0.755285144f,
    -0.607896626f,
    0.387136668f,
    -0.186523005f,
    0.0604064688f,
    -0.00752721308f,
    -0.00352357398f,
    0.0015693137f,
    0.000194801847f,
    -0.000122983154f};

/// Where pieces of the inverse begin to be used, and where the last ends.
inline constexpr float kInverseR2Begin = 0.930000007f;
inline constexpr float kInverseR3Begin = 2.4000001f;
inline constexpr float kInverseR3End = 5.19999981f;

/// The derivative of GELU as a function of its output y, in four pieces: left of the minimum,
/// and R1, R2, R3 right of it. A piece is a polynomial in t = scale v + offset, where v is
/// sqrt(ln(min_y / y)), sqrt(y - min_y), y and y; on the left it is the derivative over y.
struct GeluInverse {
  float min_x;                ///< where the output is least
  float min_y;                ///< the least output
  float min_y_low;            ///< what its rounding to float leaves
  float left_end;             ///< left of the minimum, outputs above this have derivative 0
  float scale[4];             ///< of the pieces
  float offset[4];            ///< of the pieces
  float coefficients[14][4];  ///< a row for each power, ascending; a column for each piece
};

inline constexpr GeluInverse kErfInverse = {
    -0.751791537f,
    -0.169971213f,
    5.26480903e-09f,
    -6.64406974e-10f,
    {0.454545468f, 1.90476191f, 1.33333337f, 0.714285731f},
    {-1.0f, -1.0f, -2.20000005f, -2.71428561f},
    {{3.31391025f, 0.645433009f, 1.11333704f, 1.00103605f},
     {3.0040772f, 0.658590019f, -0.0590186976f, -0.00507650804f},
     {0.0230521336f, -0.111300915f, -0.0379999205f, 0.0113054253f},
     {0.0332809985f, -0.108703367f, 0.0340429097f, -0.0147124622f},
     {-0.0608631447f, 0.0141441179f, -0.00542131858f, 0.0117454762f},
     {0.0653689727f, 0.000560735643f, -0.00090417848f, -0.0049319244f},
     {-0.05381063f, 0.00202523451f, -0.000284069625f, -0.000860599044f},
     {0.0418247692f, 0.000148257532f, 0.000217941211f, 0.00298434007f},
     {-0.0382095054f, 0.00019024653f, 1.88643844e-05f, -0.00158414536f},
     {0.0234902631f, -7.94561856e-05f, 3.67173556e-07f, -0.000252261641f},
     {-0.000441723416f, 2.44321527e-05f, -8.35345327e-06f, 0.00034942216f},
     {0.000518396089f, 0.0f, 0.0f, 0.0f},
     {-0.00987671874f, 0.0f, 0.0f, 0.0f},
     {0.00519941188f, 0.0f, 0.0f, 0.0f}}};

inline constexpr GeluInverse kTanhInverse = {
    -0.752461433f,
    -0.170040756f,
    5.89275029e-09f,
    -6.64678812e-10f,
    {0.454545468f, 1.90476191f, 1.33333337f, 0.714285731f},
    {-1.0f, -1.0f, -2.20000005f, -2.71428561f},
    {{3.6118772f, 0.645342469f, 1.11395991f, 1.00077856f},
     {4.04086256f, 0.658600867f, -0.0579931922f, -0.00440074084f},
     {1.0323472f, -0.111795269f, -0.0386929363f, 0.0110854339f},
     {-0.0392032079f, -0.109088011f, 0.0332133323f, -0.0159108564f},
     {-0.318862289f, 0.0146246525f, -0.00523663405f, 0.013410734f},
     {0.354105115f, 0.000788506295f, -0.000652978255f, -0.0051522525f},
     {-0.079278484f, 0.00201652874f, -0.000287897681f, -0.00200866954f},
     {-0.197168306f, 0.000144909573f, 0.000174669636f, 0.00371565623f},
     {0.116554707f, 0.000153006447f, 1.08729246e-05f, -0.00140282826f},
     {0.11867483f, -8.15126768e-05f, 4.54463861e-06f, -0.000498023874f},
     {-0.110571869f, 2.33564879e-05f, -6.76522131e-06f, 0.000383543782f},
     {-0.00872957241f, 0.0f, 0.0f, 0.0f},
     {0.0181228966f, 0.0f, 0.0f, 0.0f},
     {0.001644818f, 0.0f, 0.0f, 0.0f}}};

}  // namespace palmist::kernels
// clang-format on
