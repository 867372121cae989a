#include "exporter/aten.h"

#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <cstring>

#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre::aten {

c10::ScalarType to_torch(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_bool_:
      return c10::kBool;
    case NACRE_u8:
      return c10::kByte;
    case NACRE_i8:
      return c10::kChar;
    case NACRE_i16:
      return c10::kShort;
    case NACRE_i32:
      return c10::kInt;
    case NACRE_i64:
      return c10::kLong;
    case NACRE_f16:
      return c10::kHalf;
    case NACRE_bf16:
      return c10::kBFloat16;
    case NACRE_f32:
      return c10::kFloat;
    case NACRE_f64:
      return c10::kDouble;
    case NACRE_c64:
      return c10::kComplexFloat;
    case NACRE_c128:
      return c10::kComplexDouble;
    case NACRE_u16:
      return c10::kUInt16;
    case NACRE_u32:
      return c10::kUInt32;
    case NACRE_u64:
      return c10::kUInt64;
    default:
      fail(ErrorKind::internal, "a tensor without a dtype");
  }
}

nacre_dtype from_torch(c10::ScalarType type) {
  switch (type) {
    case c10::kBool:
      return NACRE_bool_;
    case c10::kByte:
      return NACRE_u8;
    case c10::kChar:
      return NACRE_i8;
    case c10::kShort:
      return NACRE_i16;
    case c10::kInt:
      return NACRE_i32;
    case c10::kLong:
      return NACRE_i64;
    case c10::kHalf:
      return NACRE_f16;
    case c10::kBFloat16:
      return NACRE_bf16;
    case c10::kFloat:
      return NACRE_f32;
    case c10::kDouble:
      return NACRE_f64;
    case c10::kComplexFloat:
      return NACRE_c64;
    case c10::kComplexDouble:
      return NACRE_c128;
    case c10::kUInt16:
      return NACRE_u16;
    case c10::kUInt32:
      return NACRE_u32;
    case c10::kUInt64:
      return NACRE_u64;
    default:
      fail(ErrorKind::unsupported, "tensors of type {} are not supported", c10::toString(type));
  }
}

bool is_low_precision(c10::ScalarType type) {
  return type == c10::kFloat || type == c10::kHalf || type == c10::kBFloat16 ||
         type == c10::kComplexFloat || type == c10::kComplexHalf;
}

c10::ScalarType oracle_type(c10::ScalarType type, OracleType oracle) {
  const bool is_complex = c10::isComplexType(type);
  switch (oracle) {
    case OracleType::own:
    case OracleType::tf32:
      return type;
    case OracleType::wide:
    case OracleType::rounded:
      if (!is_low_precision(type)) return type;
      return is_complex ? c10::kComplexDouble : c10::kDouble;
    case OracleType::narrow:
      return type == c10::kDouble ? c10::kFloat : type == c10::kComplexDouble ? c10::kComplexFloat : type;
    case OracleType::float16:
      return type == c10::kFloat ? c10::kHalf : type;
    case OracleType::bfloat16:
      return type == c10::kFloat ? c10::kBFloat16 : type;
  }
  return type;
}

at::Tensor borrow(const HostTensor& tensor) {
  auto options = at::TensorOptions().dtype(to_torch(tensor.dtype));
  if (tensor.elements() == 0) return at::empty(tensor.shape, options);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): callers only read
  return at::from_blob(const_cast<std::byte*>(tensor.data.get()), tensor.shape, options);
}

HostTensor to_host(const at::Tensor& tensor) {
  at::Tensor dense = tensor.detach().resolve_conj().resolve_neg().contiguous();
  std::byte* bytes = nullptr;
  HostTensor result = make_tensor(from_torch(dense.scalar_type()), dense.sizes().vec(), &bytes);
  if (dense.nbytes() > 0) std::memcpy(bytes, dense.const_data_ptr(), dense.nbytes());
  return result;
}

std::optional<c10::OperatorHandle> find_operator(const std::string& op) {
  size_t first = op.find('.');
  if (first == std::string::npos) return std::nullopt;
  size_t second = op.find('.', first + 1);
  std::string name = op.substr(0, first) + "::" + op.substr(first + 1, second - first - 1);
  std::string overload = second == std::string::npos ? "" : op.substr(second + 1);
  if (overload == "default") overload.clear();
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

c10::OperatorHandle require_operator(const Node& node) {
  auto op = find_operator(node.op);
  if (is_library_operator(node.op)) {
    fail_at(ErrorKind::unsupported, where_text(node.where),
            "{} is an operator of torch.library, which only the application can compute",
            node.op.substr(kLibrary.size()));
  }
  if (!op) {
    fail_at(ErrorKind::unsupported, where_text(node.where),
            "{} is no operator of this libtorch: a custom operator cannot be run or analysed here",
            node.op);
  }
  return *op;
}

namespace {

[[noreturn]] void mismatch(const Node& node, const c10::Argument& parameter) {
  fail_at(ErrorKind::user, where_text(node.where), "argument `{}` of {} is not of type {}",
          parameter.name(), node.op, parameter.real_type()->str());
}

constexpr std::pair<const char*, c10::MemoryFormat> kMemoryFormats[] = {
    {"contiguous_format", c10::MemoryFormat::Contiguous},
    {"channels_last", c10::MemoryFormat::ChannelsLast},
    {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d},
    {"preserve_format", c10::MemoryFormat::Preserve}};

struct Converter {
  const Node& node;
  const c10::Argument& parameter;
  const Environment& env;

  c10::IValue convert(const Argument& a, const c10::TypePtr& type) const;
  c10::IValue list(const Argument& a, const c10::TypePtr& element) const;
  int64_t integer(const Expr& e) const { return env.integer(e); }

  // A number that a run-time value holds.
  c10::IValue number(ValueId id) const {
    c10::IValue v = env.value(id);
    if (v.isTensor()) mismatch(node, parameter);
    return v;
  }
};

c10::ScalarType dtype_argument(nacre_dtype dtype, const Environment& env) {
  return oracle_type(to_torch(dtype), env.oracle);
}

// A Python number where a tensor is expected: promotes like a number.
c10::IValue wrapped(const c10::Scalar& scalar, const Environment& env) {
  at::Tensor t = c10::scalar_to_tensor(scalar, c10::Device(env.device));
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

c10::IValue Converter::convert(const Argument& a, const c10::TypePtr& type) const {
  using c10::TypeKind;
  TypeKind kind = type->kind();
  if (kind == TypeKind::OptionalType) {
    if (std::holds_alternative<std::monostate>(a)) return {};
    if (auto* v = std::get_if<ValueRef>(&a); v && v->id == kNoValue) return {};
    return convert(a, type->castRaw<c10::OptionalType>()->getElementType());
  }
  if (kind == TypeKind::ListType) return list(a, type->castRaw<c10::ListType>()->getElementType());
  if (kind == TypeKind::TensorType) {
    if (auto* v = std::get_if<ValueRef>(&a)) {
      if (v->id == kNoValue) return at::Tensor();
      c10::IValue value = env.value(v->id);
      return value.isTensor() ? value : wrapped(value.toScalar(), env);
    }
    if (auto* e = std::get_if<Expr>(&a)) return wrapped(integer(*e), env);
    if (auto* d = std::get_if<double>(&a)) return wrapped(*d, env);
    if (auto* b = std::get_if<bool>(&a)) return wrapped(*b, env);
    if (auto* c = std::get_if<std::complex<double>>(&a)) return wrapped(c10::complex<double>(*c), env);
    if (std::holds_alternative<std::monostate>(a)) return at::Tensor();
    mismatch(node, parameter);
  }
  if (kind == TypeKind::GeneratorType) return {};
  if (kind == TypeKind::DeviceObjType) return c10::Device(env.device);
  if (kind == TypeKind::LayoutType) {
    if (auto* k = std::get_if<Keyword>(&a); k && k->text == "strided")
      return static_cast<int64_t>(c10::kStrided);
    mismatch(node, parameter);
  }
  if (kind == TypeKind::MemoryFormatType) {
    if (auto* k = std::get_if<Keyword>(&a)) {
      for (auto [name, format] : kMemoryFormats)
        if (k->text == name) return static_cast<int64_t>(format);
    }
    mismatch(node, parameter);
  }
  if (kind == TypeKind::ScalarTypeType) {
    if (auto* t = std::get_if<nacre_dtype>(&a))
      return static_cast<int64_t>(dtype_argument(*t, env));
    mismatch(node, parameter);
  }
  if (auto* v = std::get_if<ValueRef>(&a)) {
    c10::IValue n = number(v->id);
    if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType)
      return n.toScalar().toDouble();
    if (kind == TypeKind::BoolType || kind == TypeKind::SymBoolType) return n.toScalar().toBool();
    return n;
  }
  if (kind == TypeKind::NumberType) {
    if (auto* e = std::get_if<Expr>(&a)) return integer(*e);
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* c = std::get_if<std::complex<double>>(&a)) return c10::complex<double>(*c);
  } else if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType) {
    if (auto* e = std::get_if<Expr>(&a)) return static_cast<double>(integer(*e));
    if (auto* d = std::get_if<double>(&a)) return *d;
  } else if (kind == TypeKind::BoolType || kind == TypeKind::SymBoolType) {
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* e = std::get_if<Expr>(&a)) return integer(*e) != 0;
  } else if (kind == TypeKind::IntType || kind == TypeKind::SymIntType) {
    if (auto* e = std::get_if<Expr>(&a)) return integer(*e);
    if (auto* b = std::get_if<bool>(&a)) return static_cast<int64_t>(*b);
    if (auto* t = std::get_if<nacre_dtype>(&a))
      return static_cast<int64_t>(dtype_argument(*t, env));
  } else if (kind == TypeKind::StringType) {
    if (auto* s = std::get_if<std::string>(&a)) return *s;
  }
  mismatch(node, parameter);
}

c10::IValue Converter::list(const Argument& a, const c10::TypePtr& element) const {
  using c10::TypeKind;
  TypeKind kind = element->kind();
  auto refs = [&]() -> std::vector<ValueRef> {
    if (auto* many = std::get_if<std::vector<ValueRef>>(&a)) return *many;
    if (auto* one = std::get_if<ValueRef>(&a)) return {*one};
    if (auto* e = std::get_if<std::vector<Expr>>(&a); e && e->empty()) return {};
    mismatch(node, parameter);
  };
  if (kind == TypeKind::TensorType) {
    c10::List<at::Tensor> result;
    for (ValueRef v : refs()) result.push_back(convert(v, element).toTensor());
    return result;
  }
  if (kind == TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> result;
    for (ValueRef v : refs()) {
      result.push_back(v.id == kNoValue ? std::optional<at::Tensor>()
                                        : std::optional(env.value(v.id).toTensor()));
    }
    return result;
  }
  if (kind == TypeKind::IntType || kind == TypeKind::SymIntType) {
    c10::List<int64_t> result;
    if (auto* many = std::get_if<std::vector<Expr>>(&a)) {
      for (const Expr& e : *many) result.push_back(integer(e));
    } else if (auto* values = std::get_if<std::vector<ValueRef>>(&a)) {
      for (ValueRef v : *values) result.push_back(number(v.id).toInt());
    } else if (auto* one = std::get_if<Expr>(&a)) {  // `int[2]` takes a number for both
      int64_t n = integer(*one);
      for (int32_t i = 0; i < parameter.N().value_or(1); ++i) result.push_back(n);
    } else {
      mismatch(node, parameter);
    }
    return result;
  }
  if (kind == TypeKind::FloatType) {
    c10::List<double> result;
    if (auto* many = std::get_if<std::vector<double>>(&a)) {
      for (double d : *many) result.push_back(d);
    } else if (auto* ints = std::get_if<std::vector<Expr>>(&a)) {
      for (const Expr& e : *ints) result.push_back(static_cast<double>(integer(e)));
    } else if (auto* values = std::get_if<std::vector<ValueRef>>(&a)) {
      for (ValueRef v : *values) result.push_back(number(v.id).toScalar().toDouble());
    } else {
      mismatch(node, parameter);
    }
    return result;
  }
  if (kind == TypeKind::BoolType) {
    c10::List<bool> result;
    if (auto* many = std::get_if<std::vector<bool>>(&a)) {
      for (bool b : *many) result.push_back(b);
    } else if (auto* e = std::get_if<std::vector<Expr>>(&a); e && e->empty()) {
      return result;
    } else {
      mismatch(node, parameter);
    }
    return result;
  }
  if (kind == TypeKind::NumberType) {
    c10::List<at::Scalar> scalars;
    c10::impl::GenericList result(c10::NumberType::get());
    if (auto* doubles = std::get_if<std::vector<double>>(&a)) {
      for (double d : *doubles) result.push_back(d);
    } else if (auto* ints = std::get_if<std::vector<Expr>>(&a)) {
      for (const Expr& e : *ints) result.push_back(integer(e));
    } else {
      mismatch(node, parameter);
    }
    return result;
  }
  fail_at(ErrorKind::unsupported, where_text(node.where), "argument `{}` of {} has type {}",
          parameter.name(), node.op, parameter.real_type()->str());
}

void flatten(const c10::IValue& value, std::vector<c10::IValue>& results) {
  if (value.isTensor()) {
    results.push_back(value.toTensor().defined() ? value : c10::IValue());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) results.push_back(t);
  } else if (value.isSymInt()) {
    results.push_back(value.toSymInt().expect_int());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) flatten(element, results);
  } else {
    results.push_back(value);
  }
}

}  // namespace

std::vector<c10::IValue> arguments(const Node& node, const c10::FunctionSchema& schema,
                                   const Environment& environment) {
  for (const auto& [name, value] : node.args) {
    if (!schema.argumentIndexWithName(name))
      fail_at(ErrorKind::user, where_text(node.where), "{} has no argument `{}`", node.op, name);
  }
  std::vector<c10::IValue> result;
  for (const c10::Argument& parameter : schema.arguments()) {
    const Argument* a = node.find(parameter.name());
    if (a != nullptr) {
      result.push_back(Converter{node, parameter, environment}.convert(*a, parameter.real_type()));
    } else if (parameter.default_value()) {
      result.push_back(*parameter.default_value());
    } else if (parameter.type()->kind() == c10::TypeKind::OptionalType) {
      result.emplace_back();
    } else {
      fail_at(ErrorKind::user, where_text(node.where), "{} has no argument `{}`, which it needs",
              node.op, parameter.name());
    }
  }
  return result;
}

Argument to_argument(const c10::IValue& value, const c10::TypePtr& type,
                     const std::function<ValueId(const at::Tensor&)>& id_of) {
  using c10::TypeKind;
  const auto ref = [&](const c10::IValue& v) {
    return v.isTensor() && v.toTensor().defined() ? ValueRef{id_of(v.toTensor())} : ValueRef{};
  };
  if (value.isNone()) return std::monostate{};
  if (auto optional = type->cast<c10::OptionalType>())
    return to_argument(value, optional->getElementType(), id_of);
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return std::monostate{};
    return ref(value);
  }
  if (value.isInt()) {
    switch (type->kind()) {
      case TypeKind::ScalarTypeType:
        return from_torch(static_cast<c10::ScalarType>(value.toInt()));
      case TypeKind::LayoutType:
        return Keyword{"strided"};
      case TypeKind::MemoryFormatType:
        for (auto [name, format] : kMemoryFormats)
          if (static_cast<int64_t>(format) == value.toInt()) return Keyword{name};
        break;
      case TypeKind::FloatType:
        return static_cast<double>(value.toInt());
      default:
        return Expr(value.toInt());
    }
  }
  if (value.isDouble()) return value.toDouble();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return Keyword{"cpu"};
  if (value.isList()) {
    const auto items = value.toListRef();
    const auto all = [&](auto is) { return !items.empty() && std::all_of(items.begin(), items.end(), is); };
    if (all([](const c10::IValue& v) { return v.isTensor() || v.isNone(); })) {
      std::vector<ValueRef> refs;
      for (const c10::IValue& v : items) refs.push_back(ref(v));
      return refs;
    }
    if (all([](const c10::IValue& v) { return v.isDouble(); })) {
      std::vector<double> numbers;
      for (const c10::IValue& v : items) numbers.push_back(v.toDouble());
      return numbers;
    }
    if (all([](const c10::IValue& v) { return v.isBool(); })) {
      std::vector<bool> flags;
      for (const c10::IValue& v : items) flags.push_back(v.toBool());
      return flags;
    }
    if (items.empty() || all([](const c10::IValue& v) { return v.isInt(); })) {
      std::vector<Expr> numbers;
      for (const c10::IValue& v : items) numbers.emplace_back(v.toInt());
      return numbers;
    }
  }
  fail(ErrorKind::unsupported, "an argument of type {} is not supported", value.tagKind());
}

bool is_default(const c10::IValue& value, const c10::Argument& parameter) {
  const auto& standard = parameter.default_value();
  if (!standard) return false;
  if (value.isNone() || standard->isNone()) return value.isNone() && standard->isNone();
  if (value.isTensor() || standard->isTensor()) return false;
  const c10::IValue same = value == *standard;
  return same.isBool() && same.toBool();
}

bool is_random(const c10::OperatorHandle& op) {
  const auto tags = op.getTags();
  return std::find(tags.begin(), tags.end(), at::Tag::nondeterministic_seeded) != tags.end();
}

std::vector<c10::IValue> call(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments) {
  torch::jit::Stack stack(std::make_move_iterator(arguments.begin()),
                          std::make_move_iterator(arguments.end()));
  op.callBoxed(stack);
  std::vector<c10::IValue> results;
  for (const c10::IValue& value : stack) flatten(value, results);
  return results;
}

}  // namespace nacre::aten
