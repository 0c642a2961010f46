#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/json.h"
#include "graphtune/utf8.h"

namespace graphtune {

/// Has access to what a shortened constant is made of.
struct ConstantJson {
  static void put_text(Json& json, const std::string& name, std::string_view text) {
    if (is_utf8(text)) {
      json[name] = text;
    } else {
      json[name + "_hex"] = to_hex(text);
    }
  }

  static void put_extra(Json& json, const Constant& constant) {
    if (!constant.is_complete()) {
      json["size"] = constant.extra_->full_size;
      json["sha256"] = to_hex(constant.extra_->digest);
    }
  }

  static Json write(const Constant& constant) {
    Json json;
    switch (constant.kind()) {
      case Constant::Kind::None:
        return nullptr;
      case Constant::Kind::Bool:
        return constant.as_bool();
      case Constant::Kind::Int:
        return constant.as_int();
      case Constant::Kind::Float: {
        const double value = constant.as_double();
        if (std::isfinite(value)) {
          return value;
        }
        json["float"] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        return json;
      }
      case Constant::Kind::BigInt:
        json["int"] = constant.text();
        break;
      case Constant::Kind::String:
        if (constant.is_complete() && is_utf8(constant.text())) {
          return constant.text();
        }
        put_text(json, "string", constant.text());
        break;
      case Constant::Kind::Bytes:
        json["bytes"] = to_hex(constant.text());
        break;
      case Constant::Kind::Other:
        put_text(json, "type", constant.type_name());
        put_text(json, "identity", constant.text());
        if (constant.extra_ != nullptr && !constant.extra_->display.empty()) {
          put_text(json, "display", constant.extra_->display);
        }
        break;
    }
    put_extra(json, constant);
    return json;
  }

  /// Refuses hexadecimal digits that are none with the path.
  static std::string bytes_of(const JsonView& hex) {
    try {
      return from_hex(hex.string());
    } catch (const ValueError& error) {
      hex.fail(error.what());
    }
  }

  static std::optional<std::string> find_text(const JsonView& json, const std::string& name) {
    if (const auto text = json.find(name)) {
      return text->string();
    }
    if (const auto hex = json.find(name + "_hex")) {
      return bytes_of(*hex);
    }
    return std::nullopt;
  }

  /// Marks `constant`, made of the beginning of a text, as shortened where `json` says so.
  static Constant with_digest(const JsonView& json, Constant constant) {
    const auto size = json.find("size");
    if (!size) {
      return constant;
    }
    if (!constant.is_complete()) {
      json.fail(fmt::format("a shortened text has more than {} bytes", Constant::kMaxText));
    }
    auto extra = constant.extra_ == nullptr ? std::make_shared<Constant::Extra>()
                                            : std::make_shared<Constant::Extra>(*constant.extra_);
    extra->full_size = static_cast<std::uint64_t>(
        size->integer(Constant::kMaxText + 1, std::numeric_limits<std::int64_t>::max()));
    const JsonView sha256 = json.at("sha256");
    extra->digest = bytes_of(sha256);
    if (extra->digest.size() != sizeof(Sha256)) {
      sha256.fail("a SHA-256 has 64 hexadecimal digits");
    }
    constant.extra_ = std::move(extra);
    return constant;
  }

  static Constant read_float(const JsonView& json) {
    const std::string& name = json.string();
    if (name == "nan") {
      return Constant::real(std::numeric_limits<double>::quiet_NaN());
    }
    if (name == "inf" || name == "-inf") {
      const double infinity = std::numeric_limits<double>::infinity();
      return Constant::real(name == "inf" ? infinity : -infinity);
    }
    json.fail("expected \"nan\", \"inf\" or \"-inf\"");
  }

  static Constant read_integer(const JsonView& json, const JsonView& digits) {
    const std::string& text = digits.string(Constant::kMaxText);
    const std::size_t start = !text.empty() && text[0] == '-' ? 1 : 0;
    if (text.compare(start, 2, "0x") != 0) {
      digits.fail("expected 0x and hexadecimal digits");
    }
    Constant constant;
    try {
      constant = Constant::big_integer(text);
    } catch (const ValueError& error) {
      digits.fail(error.what());
    }
    if (constant.kind() != Constant::Kind::BigInt && json.find("size")) {
      digits.fail("the beginning of a long integer has more digits");
    }
    return constant;
  }

  static Constant read_object(const JsonView& json) {
    if (const auto name = json.find("float")) {
      json.allow_only({"float"});
      return read_float(*name);
    }
    if (const auto digits = json.find("int")) {
      json.allow_only({"int", "size", "sha256"});
      return read_integer(json, *digits);
    }
    if (const auto hex = json.find("bytes")) {
      json.allow_only({"bytes", "size", "sha256"});
      return Constant::bytes(bytes_of(*hex));
    }
    if (const auto text = find_text(json, "string")) {
      json.allow_only({"string", "string_hex", "size", "sha256"});
      return Constant::string(*text);
    }
    json.allow_only({"type", "type_hex", "identity", "identity_hex", "display", "display_hex",
                     "size", "sha256"});
    const auto type = find_text(json, "type");
    const auto identity = find_text(json, "identity");
    if (!type || !identity) {
      json.fail("expected a constant: \"type\" or \"identity\" is missing");
    }
    return Constant::other(*type, *identity, find_text(json, "display").value_or(""));
  }
};

Json to_json(const Constant& constant) { return ConstantJson::write(constant); }

Constant constant_from_json(const JsonView& json) {
  const Json& value = json.json();
  switch (value.type()) {
    case Json::value_t::null:
      return Constant::none();
    case Json::value_t::boolean:
      return Constant::boolean(json.boolean());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return Constant::integer(json.integer(std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()));
    case Json::value_t::number_float:
      return Constant::real(json.number());
    case Json::value_t::string:
      return Constant::string(json.string());
    case Json::value_t::object:
      return ConstantJson::with_digest(json, ConstantJson::read_object(json));
    case Json::value_t::array:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  json.fail("expected a constant, found an array");
}

}  // namespace graphtune
