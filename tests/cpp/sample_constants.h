#pragma once

#include <limits>
#include <string>
#include <vector>

#include "graphtune/constant.h"

namespace graphtune {

/// Constants of which no two are equal.
inline std::vector<Constant> distinct_constants() {
  using std::numeric_limits;
  std::vector<Constant> all{
      Constant::none(),         Constant::boolean(false), Constant::boolean(true),
      Constant::integer(0),     Constant::integer(1),     Constant::integer(-1),
      Constant::integer(256),   Constant::real(0.0),      Constant::real(-0.0),
      Constant::real(1.0),      Constant::real(-1.0),     Constant::real(0.1),
      Constant::string(""),     Constant::string("1"),    Constant::string("a"),
      Constant::string("None"), Constant::string("007"),  Constant::string("1e5"),
      Constant::string("é"),    Constant::bytes(""),      Constant::bytes("1"),
      Constant::bytes("a")};
  all.push_back(Constant::integer(numeric_limits<std::int64_t>::max()));
  all.push_back(Constant::integer(numeric_limits<std::int64_t>::min()));
  all.push_back(Constant::big_integer("9223372036854775808"));
  all.push_back(Constant::big_integer("-9223372036854775809"));
  all.push_back(Constant::big_integer("0x" + std::string(5000, 'f')));
  all.push_back(Constant::big_integer("-0x" + std::string(5000, 'f')));
  all.push_back(Constant::big_integer("0x" + std::string(4999, 'f') + "e"));
  all.push_back(Constant::real(numeric_limits<double>::infinity()));
  all.push_back(Constant::real(-numeric_limits<double>::infinity()));
  all.push_back(Constant::real(numeric_limits<double>::quiet_NaN()));
  all.push_back(Constant::real(numeric_limits<double>::denorm_min()));
  all.push_back(Constant::other("color.Color", "RED"));
  all.push_back(Constant::other("color.Color", "GREEN"));
  all.push_back(Constant::other("color.Colour", "RED"));
  all.push_back(Constant::other("color.ColorR", "ED"));
  all.push_back(Constant::other("str", "1"));
  for (const std::size_t size :
       {Constant::kMaxText, Constant::kMaxText + 1, std::size_t{100'000}}) {
    all.push_back(Constant::string(std::string(size, 'x')));
    all.push_back(Constant::string(std::string(size - 1, 'x') + "y"));
    all.push_back(Constant::bytes(std::string(size, 'x')));
    all.push_back(Constant::other("numpy.ndarray", std::string(size, 'x')));
  }
  all.push_back(Constant::string(std::string("a\0b", 3)));
  all.push_back(Constant::string(std::string("a\0c", 3)));
  return all;
}

}  // namespace graphtune
