#include "graphtune/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

using Box = std::vector<SymbolRange>;  // by symbol

Box make_box(const Region& region, std::span<const SymbolRange> ranges) {
  Box box(ranges.begin(), ranges.end());
  for (const Region::Limit& limit : region.limits) {
    SymbolRange& range = box.at(limit.symbol);
    range.min = std::max(range.min, limit.range.min);
    range.max = std::min(range.max, limit.range.max);
  }
  return box;
}

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(),
                     [](const SymbolRange& range) { return range.min > range.max; });
}

// Cuts the first of `others` out of `box` and asks the rest for each piece that remains.
bool is_box_covered(Box box, std::span<const Box> others, std::size_t& steps_left) {
  if (is_empty(box)) {
    return true;
  }
  if (others.empty() || steps_left == 0) {
    return false;
  }
  --steps_left;
  const Box& other = others.front();
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (other[i].min > box[i].max || other[i].max < box[i].min) {
      return is_box_covered(std::move(box), others.subspan(1), steps_left);
    }
  }
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (box[i].min < other[i].min) {
      Box below = box;
      below[i].max = other[i].min - 1;
      if (!is_box_covered(std::move(below), others.subspan(1), steps_left)) {
        return false;
      }
      box[i].min = other[i].min;
    }
    if (box[i].max > other[i].max) {
      Box above = box;
      above[i].min = other[i].max + 1;
      if (!is_box_covered(std::move(above), others.subspan(1), steps_left)) {
        return false;
      }
      box[i].max = other[i].max;
    }
  }
  return true;
}

}  // namespace

std::string to_string(const Region& region) {
  if (region.limits.empty()) {
    return "everywhere";
  }
  std::string text;
  for (const Region::Limit& limit : region.limits) {
    if (!text.empty()) {
      text += ", ";
    }
    text += symbol_name(limit.symbol);
    text += limit.range.min == limit.range.max
                ? fmt::format(" {}", limit.range.min)
                : fmt::format(" {} to {}", limit.range.min, limit.range.max);
  }
  return text;
}

std::string to_string(const Plan& plan) {
  if (plan.entries.empty()) {
    return "eager everywhere";
  }
  std::string text;
  for (const Plan::Entry& entry : plan.entries) {
    const bool first = text.empty();
    if (!first) {
      text += "; ";
    }
    if (entry.region.limits.empty()) {
      text += entry.engine + (first ? " everywhere" : " elsewhere");
    } else {
      text += entry.engine + " for " + to_string(entry.region);
    }
  }
  return text;
}

void check_regions(const Plan& plan, std::span<const std::uint32_t> used) {
  for (const Plan::Entry& entry : plan.entries) {
    std::vector<std::uint32_t> seen;
    for (const Region::Limit& limit : entry.region.limits) {
      const auto refuse = [&](std::string_view what) {
        throw ValueError(fmt::format("plan: the region of engine '{}' limits {}, {}", entry.engine,
                                     symbol_name(limit.symbol), what));
      };
      if (std::find(used.begin(), used.end(), limit.symbol) == used.end()) {
        refuse("which no axis of the graph shows");
      }
      if (std::find(seen.begin(), seen.end(), limit.symbol) != seen.end()) {
        refuse("which it limits already");
      }
      if (limit.range.min > limit.range.max) {
        refuse(fmt::format("to an empty range ({} to {})", limit.range.min, limit.range.max));
      }
      seen.push_back(limit.symbol);
    }
  }
}

bool is_covered(const Region& region, std::span<const Region> others,
                std::span<const SymbolRange> ranges) {
  std::vector<Box> boxes;
  boxes.reserve(others.size());
  for (const Region& other : others) {
    Box box = make_box(other, ranges);
    if (!is_empty(box)) {
      boxes.push_back(std::move(box));
    }
  }
  std::size_t steps_left = 100'000;
  return is_box_covered(make_box(region, ranges), boxes, steps_left);
}

}  // namespace graphtune
