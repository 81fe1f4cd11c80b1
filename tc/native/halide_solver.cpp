// tc._halide: Halide's simplifier, interval solver and bounds inference on plain Python data.
//
// Only ints, bools, strs and tuples cross the boundary, never a Halide object: the module therefore shares
// nothing with the `halide` Python module but libHalide itself, and does not depend on the version of
// pybind11 that one was built with.
//
//   term  ::= int | bool | str                                  (a str is an int32 variable)
//           | (op, term, term)   op in + - * // % min max == != < <= > >= and or
//           | ("-", term) | ("not", term) | ("select", term, term, term)
//   bound ::= (term | None, term | None)                        (None: no bound on that side)
//
// Algorithms: Halide's Simplify, Solve and Bounds (J. Ragan-Kelley et al., "Halide", PLDI 2013, and the
// implementation's own comments).  All Exprs are int32, and Halide assumes that int32 never overflows.

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "Halide.h"

namespace py = pybind11;

namespace {

using Halide::Expr;
using Halide::Internal::Interval;
using Halide::Internal::Scope;
namespace ir = Halide::Internal;

// Halide recurses over expressions on the C stack, several frames of several hundred bytes a level, and
// substituting lets away can turn a small shared graph into a huge tree: both are refused instead.
constexpr int kMaxDepth = 200;
constexpr int kMaxResultDepth = 1000;
constexpr int kMaxNestedConditions = 10;  // bounds of a select in a condition of a select of ...: 2^n steps
constexpr size_t kMaxNodes = 100'000;

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
constexpr int64_t kGreatest = std::numeric_limits<int32_t>::max();

// Halide names its own temporaries t0, t1, ...; a variable of ours with that name would be captured when
// they are substituted away.  No name Halide makes starts with this character.
constexpr char kMark = ':';

// A result that has no form as a term (casts and calls that bounds inference may introduce).
struct NoTerm {};

enum class Op { Add, Sub, Mul, Div, Mod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select };
constexpr size_t kOps = 17;
constexpr std::array<std::string_view, kOps> kNames = {
    "+", "-", "*", "//", "%", "min", "max", "==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "select"};

bool is_bool(const Expr &e) { return e.type().is_bool(); }

// A scalar as Python writes it, anything else by its type: it may be too deep or too large to be written.
std::string leaf(py::handle o) {
  PyObject *p = o.ptr();
  const bool number = PyBool_Check(p) || PyFloat_CheckExact(p) || PyLong_CheckExact(p);
  if (number || o.is_none() || PyUnicode_CheckExact(p)) {
    try {
      std::string text = py::repr(o).cast<std::string>();
      if (text.size() <= 60) return text;
    } catch (const py::error_already_set &) {  // more digits than Python agrees to write
    }
  }
  return PyTuple_Check(p) ? "(...)" : std::string("<") + Py_TYPE(p)->tp_name + ">";
}

// A term for a message: its outermost node.
std::string describe(py::handle o) {
  if (!PyTuple_Check(o.ptr())) return leaf(o);
  const Py_ssize_t size = PyTuple_GET_SIZE(o.ptr());
  std::string text = "(";
  for (Py_ssize_t i = 0; i < size && i < 6; i++) {
    if (i > 0) text += ", ";
    text += leaf(PyTuple_GET_ITEM(o.ptr(), i));
  }
  return text + (size > 6 ? ", ...)" : size == 1 ? ",)" : ")");
}

std::string marked(py::handle o) {
  Py_ssize_t size = 0;
  const char *text = PyUnicode_AsUTF8AndSize(o.ptr(), &size);
  if (text == nullptr) throw py::error_already_set();
  if (size == 0) throw py::value_error("a variable needs a name");
  std::string name(1, kMark);
  return name.append(text, static_cast<size_t>(size));
}

// Python term -> Expr, checked: Halide itself would abort, cast or fold silently.
class Reader {
 public:
  Expr term(py::handle o, int depth = 0) {
    if (depth > kMaxDepth)
      throw py::value_error("the term is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (++nodes_ > kMaxNodes)
      throw py::value_error("the term has more than " + std::to_string(kMaxNodes) + " nodes");
    PyObject *p = o.ptr();
    if (PyBool_Check(p)) return ir::make_bool(p == Py_True);
    if (PyLong_Check(p)) return integer(o);
    if (PyUnicode_Check(p)) return ir::Variable::make(Halide::Int(32), marked(o));
    if (PyTuple_Check(p)) return node(o, depth);
    throw py::value_error("not a term: " + describe(o));
  }

  Expr number(py::handle o) {
    Expr e = term(o);
    if (is_bool(e)) throw py::value_error("an integer is needed, not the condition " + describe(o));
    return e;
  }

  Expr condition(py::handle o) {
    Expr e = term(o);
    if (!is_bool(e)) throw py::value_error("a condition is needed, not the integer " + describe(o));
    return e;
  }

 private:
  size_t nodes_ = 0;
  int conditions_ = 0;  // selects whose condition is being read

  static Expr integer(py::handle o) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(o.ptr(), &overflow);
    if (overflow != 0 || value < kLeast || value > kGreatest)
      throw std::overflow_error("the integer " + describe(o) + " does not fit int32, the solver's only type");
    return ir::IntImm::make(Halide::Int(32), value);
  }

  static Op op(py::handle o) {
    PyObject *head = PyTuple_GET_SIZE(o.ptr()) > 0 ? PyTuple_GET_ITEM(o.ptr(), 0) : nullptr;
    if (head != nullptr && PyUnicode_Check(head)) {
      Py_ssize_t size = 0;
      const char *text = PyUnicode_AsUTF8AndSize(head, &size);
      if (text == nullptr) throw py::error_already_set();
      std::string_view name(text, static_cast<size_t>(size));
      for (size_t i = 0; i < kOps; i++)
        if (kNames[i] == name) return static_cast<Op>(i);
    }
    throw py::value_error("unknown operator in " + describe(o));
  }

  Expr node(py::handle o, int depth) {
    const Op k = op(o);
    const Py_ssize_t count = PyTuple_GET_SIZE(o.ptr()) - 1;
    const Py_ssize_t wanted = k == Op::Select ? 3 : k == Op::Not || (k == Op::Sub && count == 1) ? 1 : 2;
    if (count != wanted)
      throw py::value_error("'" + std::string(kNames[static_cast<size_t>(k)]) + "' takes " +
                            std::to_string(wanted) + " operands: " + describe(o));
    auto operand = [&](Py_ssize_t i) { return term(PyTuple_GET_ITEM(o.ptr(), i + 1), depth + 1); };
    if (k == Op::Select && ++conditions_ > kMaxNestedConditions)
      throw py::value_error("more than " + std::to_string(kMaxNestedConditions) +
                            " selects inside each other's conditions");
    Expr a = operand(0);
    if (k == Op::Select) conditions_--;
    if (k == Op::Not) {
      want(is_bool(a), o, "takes a condition");
      return ir::Not::make(a);
    }
    if (count == 1) {
      want(!is_bool(a), o, "takes an integer");
      return ir::Sub::make(ir::make_zero(a.type()), a);
    }
    Expr b = operand(1);
    switch (k) {
      case Op::And:
        want(is_bool(a) && is_bool(b), o, "takes conditions");
        return ir::And::make(a, b);
      case Op::Or:
        want(is_bool(a) && is_bool(b), o, "takes conditions");
        return ir::Or::make(a, b);
      case Op::EQ:
        want(is_bool(a) == is_bool(b), o, "compares an integer with a condition");
        return ir::EQ::make(a, b);
      case Op::NE:
        want(is_bool(a) == is_bool(b), o, "compares an integer with a condition");
        return ir::NE::make(a, b);
      case Op::Select: {
        Expr c = operand(2);
        want(is_bool(a), o, "chooses by an integer");
        want(is_bool(b) == is_bool(c), o, "chooses between an integer and a condition");
        return ir::Select::make(a, b, c);
      }
      default:
        want(!is_bool(a) && !is_bool(b), o, "takes integers");
        return arithmetic(k, a, b);
    }
  }

  static void want(bool fits, py::handle o, const char *what) {
    if (fits) return;
    const std::string name(kNames[static_cast<size_t>(op(o))]);
    throw py::value_error("'" + name + "' " + what + ": " + describe(o));
  }

  static Expr arithmetic(Op k, const Expr &a, const Expr &b) {
    switch (k) {
      case Op::Add: return ir::Add::make(a, b);
      case Op::Sub: return ir::Sub::make(a, b);
      case Op::Mul: return ir::Mul::make(a, b);
      case Op::Min: return ir::Min::make(a, b);
      case Op::Max: return ir::Max::make(a, b);
      case Op::LT: return ir::LT::make(a, b);
      case Op::LE: return ir::LE::make(a, b);
      case Op::GT: return ir::GT::make(a, b);
      case Op::GE: return ir::GE::make(a, b);
      case Op::Div:
      case Op::Mod: return division(k, a, b);
      default: throw py::value_error("not an arithmetic operator");
    }
  }

  // Floor division in terms of Halide's Euclidean one; they differ for negative divisors only.
  static Expr division(Op k, const Expr &a, const Expr &b) {
    auto divide = [&](const Expr &x, const Expr &y) {
      return k == Op::Div ? ir::Div::make(x, y) : ir::Mod::make(x, y);
    };
    std::optional<int64_t> divisor = ir::as_const_int(b);
    if (!divisor || *divisor > 0) return divide(a, b);
    if (*divisor == 0) throw py::value_error("division by the constant 0");
    if (*divisor == kLeast)
      throw std::overflow_error("the negated divisor does not fit int32");
    Expr zero = ir::make_zero(a.type());
    Expr q = divide(ir::Sub::make(zero, a), ir::make_const(a.type(), -*divisor));
    return k == Op::Div ? q : ir::Sub::make(zero, q);
  }
};

// Expr -> Python term.
class Writer : public ir::IRVisitor {
 public:
  py::object term(const Expr &e) {
    if (++nodes_ > kMaxNodes)
      throw py::value_error("the result has more than " + std::to_string(kMaxNodes) + " nodes");
    if (++depth_ > kMaxResultDepth) throw py::value_error("the result is nested too deeply");
    e.accept(this);
    depth_--;
    return std::move(result_);
  }

 private:
  py::object result_;
  size_t nodes_ = 0;
  int depth_ = 0;

  static py::object name(Op k) {
    // Made once and kept for good: interned, and alive as long as the interpreter.
    static const std::array<PyObject *, kOps> names = [] {
      std::array<PyObject *, kOps> made{};
      for (size_t i = 0; i < kOps; i++) {
        made[i] = PyUnicode_InternFromString(std::string(kNames[i]).c_str());
        if (made[i] == nullptr) throw py::error_already_set();
      }
      return made;
    }();
    return py::reinterpret_borrow<py::object>(names[static_cast<size_t>(k)]);
  }

  template <typename Node>
  void binary(Op k, const Node *op) {
    py::object a = term(op->a);
    py::object b = term(op->b);
    result_ = py::make_tuple(name(k), std::move(a), std::move(b));
  }

  using ir::IRVisitor::visit;
  void visit(const ir::IntImm *op) override { result_ = py::int_(op->value); }
  void visit(const ir::UIntImm *op) override {
    if (!op->type.is_bool()) throw NoTerm();
    result_ = py::bool_(op->value != 0);
  }
  void visit(const ir::FloatImm *) override { throw NoTerm(); }
  void visit(const ir::StringImm *) override { throw NoTerm(); }
  void visit(const ir::Variable *op) override {
    // Halide's infinities are variables too; they carry no mark.
    if (op->name.empty() || op->name[0] != kMark) throw NoTerm();
    result_ = py::str(op->name.data() + 1, op->name.size() - 1);
  }
  void visit(const ir::Add *op) override { binary(Op::Add, op); }
  void visit(const ir::Sub *op) override { binary(Op::Sub, op); }
  void visit(const ir::Mul *op) override { binary(Op::Mul, op); }
  void visit(const ir::Div *op) override { division(Op::Div, op); }
  void visit(const ir::Mod *op) override { division(Op::Mod, op); }
  void visit(const ir::Min *op) override { binary(Op::Min, op); }
  void visit(const ir::Max *op) override { binary(Op::Max, op); }
  void visit(const ir::EQ *op) override { binary(Op::EQ, op); }
  void visit(const ir::NE *op) override { binary(Op::NE, op); }
  void visit(const ir::LT *op) override { binary(Op::LT, op); }
  void visit(const ir::LE *op) override { binary(Op::LE, op); }
  void visit(const ir::GT *op) override { binary(Op::GT, op); }
  void visit(const ir::GE *op) override { binary(Op::GE, op); }
  void visit(const ir::And *op) override { binary(Op::And, op); }
  void visit(const ir::Or *op) override { binary(Op::Or, op); }
  void visit(const ir::Not *op) override {
    py::object a = term(op->a);
    result_ = py::make_tuple(name(Op::Not), std::move(a));
  }
  void visit(const ir::Select *op) override {
    py::object c = term(op->condition);
    py::object t = term(op->true_value);
    py::object f = term(op->false_value);
    result_ = py::make_tuple(name(Op::Select), std::move(c), std::move(t), std::move(f));
  }
  void visit(const ir::Let *op) override { result_ = term(ir::substitute_in_all_lets(Expr(op))); }
  void visit(const ir::Cast *) override { throw NoTerm(); }
  void visit(const ir::Reinterpret *) override { throw NoTerm(); }
  void visit(const ir::Ramp *) override { throw NoTerm(); }
  void visit(const ir::Broadcast *) override { throw NoTerm(); }
  void visit(const ir::Shuffle *) override { throw NoTerm(); }
  void visit(const ir::VectorReduce *) override { throw NoTerm(); }
  void visit(const ir::Load *) override { throw NoTerm(); }
  void visit(const ir::Call *op) override {
    if (op->is_intrinsic(ir::Call::signed_integer_overflow))
      throw std::overflow_error("an intermediate value leaves int32, the solver's only type");
    throw NoTerm();
  }

  // Halide's Euclidean quotient a / -c is -(a / c), its remainder a % -c is a % c.
  template <typename Node>
  void division(Op k, const Node *op) {
    std::optional<int64_t> divisor = ir::as_const_int(op->b);
    if (!divisor || *divisor >= 0) return binary(k, op);
    py::object q = py::make_tuple(name(k), term(op->a), py::int_(-*divisor));
    result_ = k == Op::Mod ? q : py::make_tuple(name(Op::Sub), py::int_(0), q);
  }
};

// The error text of Halide, without the end of line it puts there.
std::string text(const Halide::Error &e) {
  std::string s = e.what();
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
  return s;
}

// Halide::Error is not a std::exception: untranslated it would end the process.
template <typename F>
py::object guarded(F &&body) {
  try {
    return body();
  } catch (const Halide::Error &e) {
    throw py::value_error("Halide: " + text(e));
  } catch (const NoTerm &) {
    throw py::value_error("Halide's result has no form as a term");
  }
}

using Bounds = Scope<Interval>;

class FreeVariables : public ir::IRGraphVisitor {
 public:
  std::set<std::string> names;

 private:
  using ir::IRGraphVisitor::visit;
  void visit(const ir::Variable *op) override { names.insert(op->name); }
};

Interval interval(Reader &reader, py::handle pair) {
  if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2)
    throw py::value_error("bounds are a pair (lo, hi), not " + describe(pair));
  Interval i = Interval::everything();
  py::handle lo = PyTuple_GET_ITEM(pair.ptr(), 0), hi = PyTuple_GET_ITEM(pair.ptr(), 1);
  if (!lo.is_none()) i.min = reader.number(lo);
  if (!hi.is_none()) i.max = reader.number(hi);
  return i;
}

void read_bounds(Reader &reader, const py::object &given, Bounds &scope) {
  if (given.is_none()) return;
  if (!PyDict_Check(given.ptr()))
    throw py::value_error("bounds are a dict {name: (lo, hi)}, not " + describe(given));
  for (auto item : py::reinterpret_borrow<py::dict>(given)) {
    if (!PyUnicode_Check(item.first.ptr()))
      throw py::value_error("not a variable's name: " + describe(item.first));
    scope.push(marked(item.first), interval(reader, item.second));
  }
}

// A domain whose ends mention the variables it bounds would leave them in results that promise not to.
void read_domain(Reader &reader, const py::dict &given, Bounds &scope) {
  read_bounds(reader, given, scope);
  FreeVariables free;
  for (auto it = scope.cbegin(); it != scope.cend(); ++it) {
    const Interval &i = it.value();
    if (i.has_lower_bound()) i.min.accept(&free);
    if (i.has_upper_bound()) i.max.accept(&free);
  }
  for (const std::string &name : free.names)
    if (scope.contains(name))
      throw py::value_error("the domain's variable '" + name.substr(1) + "' bounds one of its variables");
}

Expr simplified(const Expr &e, const Bounds &bounds) {
  return ir::simplify(ir::common_subexpression_elimination(e), true, bounds);
}

py::object written(const Expr &e) { return Writer().term(ir::substitute_in_all_lets(e)); }

// An end of the bounds of a term; one that has no form as a term is given up: the bounds stay true.
py::object end(const Expr &e, const Bounds &bounds) {
  try {
    return written(simplified(e, bounds));
  } catch (const NoTerm &) {
    return py::none();
  }
}

py::object simplify(const py::object &expr, const py::object &bounds) {
  return guarded([&]() -> py::object {
    Reader reader;
    Bounds scope;
    read_bounds(reader, bounds, scope);
    return written(simplified(reader.term(expr), scope));
  });
}

py::object can_prove(const py::object &condition, const py::object &bounds) {
  return guarded([&]() -> py::object {
    Reader reader;
    Bounds scope;
    read_bounds(reader, bounds, scope);
    return py::bool_(ir::can_prove(reader.condition(condition), scope));
  });
}

py::object solve_for_inner_interval(const py::object &condition, const py::str &variable,
                                    const py::object &bounds) {
  return guarded([&]() -> py::object {
    Reader reader;
    Bounds scope;
    read_bounds(reader, bounds, scope);
    Interval i = ir::solve_for_inner_interval(reader.condition(condition), marked(variable));
    if (i.is_empty()) return py::none();
    try {
      py::object lo = i.has_lower_bound() ? written(simplified(i.min, scope)) : py::none();
      py::object hi = i.has_upper_bound() ? written(simplified(i.max, scope)) : py::none();
      return py::make_tuple(lo, hi);
    } catch (const NoTerm &) {
      return py::none();
    }
  });
}

py::object and_condition_over_domain(const py::object &condition, const py::dict &domain,
                                     const py::object &bounds) {
  return guarded([&]() -> py::object {
    Reader reader;
    Bounds scope, varying;
    read_bounds(reader, bounds, scope);
    read_domain(reader, domain, varying);
    // Each occurrence is bounded on its own, so those that cancel have to be gone first.
    Expr c = ir::and_condition_over_domain(simplified(reader.condition(condition), scope), varying);
    try {
      return written(simplified(c, scope));
    } catch (const NoTerm &) {
      return py::bool_(false);
    }
  });
}

py::object bounds_of_expr_in_scope(const py::object &expr, const py::dict &domain, const py::object &bounds) {
  return guarded([&]() -> py::object {
    Reader reader;
    Bounds scope, varying;
    read_bounds(reader, bounds, scope);
    read_domain(reader, domain, varying);
    Interval i = ir::bounds_of_expr_in_scope(simplified(reader.number(expr), scope), varying);
    py::object lo = i.has_lower_bound() ? end(i.min, scope) : py::none();
    py::object hi = i.has_upper_bound() ? end(i.max, scope) : py::none();
    return py::make_tuple(lo, hi);
  });
}

}  // namespace

PYBIND11_MODULE(_halide, m) {
  m.doc() = "Halide's simplifier, interval solver and bounds inference on tuples (see tc.halide.solve).";
  const std::string major = std::to_string(HALIDE_VERSION_MAJOR);
  const std::string minor = std::to_string(HALIDE_VERSION_MINOR);
  m.attr("HALIDE_VERSION") = major + "." + minor + "." + std::to_string(HALIDE_VERSION_PATCH);
  m.attr("MAX_DEPTH") = kMaxDepth;
  m.def("simplify", &simplify, py::arg("expr"), py::arg("bounds") = py::none());
  m.def("can_prove", &can_prove, py::arg("condition"), py::arg("bounds") = py::none());
  m.def("solve_for_inner_interval", &solve_for_inner_interval, py::arg("condition"), py::arg("variable"),
        py::arg("bounds") = py::none());
  m.def("and_condition_over_domain", &and_condition_over_domain, py::arg("condition"), py::arg("domain"),
        py::arg("bounds") = py::none());
  m.def("bounds_of_expr_in_scope", &bounds_of_expr_in_scope, py::arg("expr"), py::arg("domain"),
        py::arg("bounds") = py::none());
}
