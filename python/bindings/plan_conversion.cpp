#include "bindings/plan_conversion.h"

#include "graphtune/error.h"
#include "graphtune/size_expr.h"

namespace graphtune::python {

std::uint32_t symbol_of(const std::string& name) {
  const SizeExpr expr = SizeExpr::parse(name);
  if (!expr.is_symbol()) {
    throw ValueError("'" + name + "' is no symbol");
  }
  return expr.terms[0].first;
}

Plan make_plan(const PlanEntries& entries) {
  Plan plan;
  for (const auto& [engine, limits] : entries) {
    Plan::Entry entry{engine, {}};
    for (const auto& [name, range] : limits) {
      entry.region.limits.push_back({symbol_of(name), {range.first, range.second}});
    }
    plan.entries.push_back(std::move(entry));
  }
  return plan;
}

}  // namespace graphtune::python
