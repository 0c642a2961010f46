#include <limits>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "graphtune/constant.h"
#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "sample_constants.h"

namespace graphtune {
namespace {

std::string encoded(const Constant& constant) {
  std::string bytes;
  constant.encode(bytes);
  return bytes;
}

TEST(Constant, DistinctOnesNeverMeet) {
  const std::vector<Constant> all = distinct_constants();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[i] == all[k], i == k) << all[i].repr() << " and " << all[k].repr();
      EXPECT_EQ(encoded(all[i]) == encoded(all[k]), i == k)
          << all[i].repr() << " and " << all[k].repr();
      if (i != k) {  // no encoding begins another
        EXPECT_FALSE(encoded(all[i]).starts_with(encoded(all[k])))
            << all[i].repr() << " and " << all[k].repr();
        EXPECT_NE(all[i] < all[k], all[k] < all[i]);
      }
    }
  }
}

TEST(Constant, OrderIsTotal) {
  std::vector<Constant> all = distinct_constants();
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[i] < all[k], i < k) << all[i].repr() << " and " << all[k].repr();
    }
  }
  EXPECT_LT(Constant::real(-2.0), Constant::real(-1.0));
  EXPECT_LT(Constant::real(-0.0), Constant::real(0.0));
  EXPECT_LT(Constant::real(1e300), Constant::real(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_LT(Constant::integer(2), Constant::integer(10));
}

TEST(Constant, EveryNaNIsTheSame) {
  const Constant nan = Constant::real(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(nan, Constant::real(-std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(nan, Constant::real(std::bit_cast<double>(std::uint64_t{0x7FF0000000000001})));
  EXPECT_EQ(encoded(nan),
            encoded(Constant::real(std::bit_cast<double>(std::uint64_t{0xFFFFFFFFFFFFFFFF}))));
}

TEST(Constant, OneIntegerHasOneForm) {
  EXPECT_EQ(Constant::big_integer("5"), Constant::integer(5));
  EXPECT_EQ(Constant::big_integer("-0"), Constant::integer(0));
  EXPECT_EQ(Constant::big_integer("0x00fF"), Constant::integer(255));
  EXPECT_EQ(Constant::big_integer("-9223372036854775808"),
            Constant::integer(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(Constant::big_integer("+00018446744073709551616"),
            Constant::big_integer("0x10000000000000000"));
  EXPECT_EQ(Constant::big_integer("1180591620717411303424").repr(), "1180591620717411303424");
  EXPECT_EQ(Constant::big_integer("-100000000000000000000000000").repr(),
            "-100000000000000000000000000");
  EXPECT_EQ(Constant::big_integer("1180591620717411303424").kind(), Constant::Kind::BigInt);
}

TEST(Constant, RefusesWhatIsNoInteger) {
  for (const char* text :
       {"", "-", "+", "0x", "1 ", " 1", "1_000", "0b1", "1.0", "--1", "0xg", "abc"}) {
    EXPECT_THROW((void)Constant::big_integer(text), ValueError) << text;
  }
  EXPECT_THROW((void)Constant::big_integer(std::string(100'001, '1')), ValueError);
  EXPECT_EQ(Constant::big_integer(std::string(100'001, '0') + "1"), Constant::integer(1));
}

TEST(Constant, LongTextsAreKeptShort) {
  const std::string text(10'000'000, 'x');
  const Constant constant = Constant::string(text);
  EXPECT_FALSE(constant.is_complete());
  EXPECT_EQ(constant.text().size(), Constant::kMaxText);
  EXPECT_LT(encoded(constant).size(), 64U);
  EXPECT_EQ(constant.display(), std::string(64, 'x') + "… (10000000 bytes)");
  EXPECT_LT(constant.repr().size(), 300U);
  EXPECT_TRUE(Constant::string(text.substr(0, Constant::kMaxText)).is_complete());
  // Not cut within a character.
  std::string accents = "x";
  for (int i = 0; i < 200; ++i) {
    accents += "é";
  }
  EXPECT_EQ(Constant::string(accents).text().size(), 255U);
}

TEST(Constant, ShowsAsATableDoes) {
  EXPECT_EQ(Constant::none().display(), "None");
  EXPECT_EQ(Constant::boolean(true).display(), "True");
  EXPECT_EQ(Constant::integer(-5).display(), "-5");
  EXPECT_EQ(Constant::real(1).display(), "1.0");
  EXPECT_EQ(Constant::string("007").display(), "007");
  EXPECT_EQ(Constant::string("1e5").display(), "1e5");
  EXPECT_EQ(Constant::bytes("a\n").display(), "b'a\\n'");
  EXPECT_EQ(Constant::other("m.Color", "1", "<Color.RED: 1>").display(), "<Color.RED: 1>");
  EXPECT_EQ(Constant::other("torch.device", "cpu").display(), "cpu");
  EXPECT_EQ(Constant::big_integer("0x" + std::string(5000, '1')).display(),
            "0x" + std::string(62, '1') + "… (5000 hexadecimal digits)");
  EXPECT_EQ(Constant::big_integer("1" + std::string(99, '0')).display(),
            "1" + std::string(63, '0') + "… (100 digits)");
  EXPECT_EQ(Constant::bytes(std::string(300, '\0')).display().size(),
            std::string("b''… (300 bytes)").size() + 64 * 4);
}

TEST(Constant, TypeNamesArePythons) {
  EXPECT_EQ(Constant::none().type_name(), "NoneType");
  EXPECT_EQ(Constant::boolean(true).type_name(), "bool");
  EXPECT_EQ(Constant::integer(1).type_name(), "int");
  EXPECT_EQ(Constant::big_integer("0x10000000000000000").type_name(), "int");
  EXPECT_EQ(Constant::real(1).type_name(), "float");
  EXPECT_EQ(Constant::string("").type_name(), "str");
  EXPECT_EQ(Constant::bytes("").type_name(), "bytes");
  EXPECT_EQ(Constant::other("m.T", "x").type_name(), "m.T");
}

TEST(Constant, AssignStringReplacesEverything) {
  Constant constant = Constant::other("m.T", std::string(1000, 'x'), "shown");
  constant.assign_string("key");
  EXPECT_EQ(constant, Constant::string("key"));
  EXPECT_EQ(constant.display(), "key");
  EXPECT_TRUE(constant.is_complete());
}

// Expected texts are what CPython 3.11 prints.
TEST(PythonRepr, OfStrings) {
  EXPECT_EQ(python_repr("t"), "'t'");
  EXPECT_EQ(python_repr("it's"), "\"it's\"");
  EXPECT_EQ(python_repr("it's \"so\""), "'it\\'s \"so\"'");
  EXPECT_EQ(python_repr("a\\b\n\r\t\x01\x7f"), "'a\\\\b\\n\\r\\t\\x01\\x7f'");
  EXPECT_EQ(python_repr("é漢😀"), "'é漢😀'");
  EXPECT_EQ(python_repr("\u00ad\u200b\u2028\u3000"), "'\\xad\\u200b\\u2028\\u3000'");
  EXPECT_EQ(python_repr("\U000e0001"), "'\\U000e0001'");
  EXPECT_EQ(python_repr("\xed\xb2\x80"), "'\\udc80'");  // a lone surrogate
  EXPECT_EQ(python_repr(std::string_view("\0", 1)), "'\\x00'");
}

TEST(PythonRepr, ShowsInvalidBytes) {
  EXPECT_EQ(python_repr("\xff"), "'\\xff'");
  EXPECT_EQ(python_repr("\xc3"), "'\\xc3'");
  EXPECT_EQ(python_repr("\xc0\x80"), "'\\xc0\\x80'");
  EXPECT_EQ(python_repr("\xe0\x80\x80"), "'\\xe0\\x80\\x80'");
  EXPECT_EQ(python_repr("\xf5\x80\x80\x80"), "'\\xf5\\x80\\x80\\x80'");
  EXPECT_EQ(python_repr_bytes("a'\xff\n"), "b\"a'\\xff\\n\"");
}

TEST(PythonRepr, OfFloats) {
  const std::vector<std::pair<double, std::string>> rows{
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {0.001, "0.001"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {123456.789, "123456.789"},
      {1.5e-7, "1.5e-07"},
      {1e100, "1e+100"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {0.1 + 0.2, "0.30000000000000004"},
      {-12.5, "-12.5"},
      {9007199254740993.0, "9007199254740992.0"}};
  for (const auto& [value, text] : rows) {
    EXPECT_EQ(python_repr(value), text);
  }
}

TEST(Intern, OnePointerATextAcrossThreads) {
  std::vector<std::set<const std::string*>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (auto& pointers : seen) {
      threads.emplace_back([&pointers] {
        for (int i = 0; i < 1000; ++i) {
          pointers.insert(intern("intern test " + std::to_string(i % 100)));
        }
      });
    }
  }
  for (const auto& pointers : seen) {
    EXPECT_EQ(pointers, seen[0]);
    EXPECT_EQ(pointers.size(), 100U);
  }
  EXPECT_EQ(*intern("a b"), "a b");
}

TEST(Digest, MatchesTheStandardsExamples) {
  // FIPS 180-4 example, and the empty message.
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_THROW((void)sha256_file("/nonexistent/file"), Error);
  EXPECT_THROW((void)sha256_file("/"), Error);
}

TEST(Digest, HexGoesThereAndBack) {
  const std::string bytes("\x00\x7f\x80\xff", 4);
  EXPECT_EQ(to_hex(bytes), "007f80ff");
  EXPECT_EQ(from_hex("007F80fF"), bytes);
  EXPECT_THROW((void)from_hex("0"), ValueError);
  EXPECT_THROW((void)from_hex("0g"), ValueError);
}

}  // namespace
}  // namespace graphtune
