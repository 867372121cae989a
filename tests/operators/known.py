"""What tests/operators leaves out, and what may fail, each with its reason."""
import re

# Random results, sparse layouts, CUDA only, memory that is not set: no cases for a deterministic dense-tensor compiler.
LEFT_OUT = re.compile(
    r"sparse\.|to_sparse|allclose|equal|item|resize_|empty|new_empty|broadcast_shapes|hash_tensor|normal|randn|rand|uniform|cauchy|"
    r"exponential|geometric|log_normal|multinomial|bernoulli|nn\.functional\.(rrelu|alpha_dropout|dropout|feature_alpha_dropout|"
    r"linear_cross_entropy|scaled_grouped_mm|grouped_mm)|svd_lowrank|pca_lowrank|torch\._scaled_mm|jiterator|"
    r"torch\.ops\.aten\._(flash|efficient)_attention|nn\.functional\.fractional")

SINGULAR = "needs singular values, eigenvalues or an orthogonal factor, which are not lowered"
SPECIAL = "a special function that is not lowered"
EXPORT = "the exported program asserts a size that is too small where the mask is broadcast, and fails in PyTorch as well"
STORAGE = "it reads beyond the view that is its input, and a saved input has no more than the view; PyTorch refuses it as well"
LESS_EXACT = "of integers the reference is PyTorch's own float32 result, which is less exact than nacre's"
COMPLEX32 = "complex numbers of two float16 are not there"
RANK = "export records a result of two dimensions, eager code has one: its rule for the shape takes the dimension -1 of a list for another one"
CANCELS = "lgamma is good to a few 1e-15, and the logarithms that are added here cancel"
NAN_IN_HALF = "PyTorch's own series gives NaN in 16 bits from a norm of about 3 on, where the result is far from overflow"
ANY_ORDER = "PyTorch does not define which of several equal elements comes first"

NOT_LOWERED = r"not supported"

# Patterns of case names (OPERATOR-DTYPE-NUMBER), of how they fail, and why they may. Of sorted values only the positions of
# equal ones are open: the values must be right, and median takes the first.
REASONS = [
    (r"(linalg\.)?(svd|eig|eigh|eigvals|eigvalsh|svdvals|qr|lstsq|pinv|cond|matrix_rank|polar|matrix_sqrth|householder_product|ldl_\w+)"
     r"(\.[\w.]+)?-", NOT_LOWERED, SINGULAR),
    (r"(norm\.nuc|geqrf|ormqr|pinverse|linalg\.norm|linalg\.matrix_norm|linalg\.norm\.subgradients_at_zero)-", NOT_LOWERED, SINGULAR),
    (r"(igamma|igammac|polygamma\.\w+|special\.polygamma\.\w+|special\.zeta|special\.airy_ai|special\.(\w*bessel\w+)|special\.\w+_polynomial_\w+)-",
     NOT_LOWERED, SPECIAL),
    (r"(chalf|complex|polar|view_as_complex)-", NOT_LOWERED + ".*complex32", COMPLEX32),
    (r"(linalg\.)?matrix_exp-(float16|bfloat16)-", r"PyTorch's is nan", NAN_IN_HALF),
    (r"as_strided\.partial_views-", r"setStorage", STORAGE),
    (r"masked_select-", r"u0 is \d+, and must be at most \d+", EXPORT),
    (r"special\.i1e?-(int|uint)", r"error [\d.e-]+, limit", LESS_EXACT),
    (r"unique_consecutive-", r"gives rank 1, but \w+ has rank 2", RANK),
    (r"mvlgamma\..*-float64-", r"error [\d.e-]+, limit", CANCELS),
    (r"argsort-(bool|uint8|int\d+|float16|bfloat16)-", r"output 0: \d+ of \d+ elements of i64", ANY_ORDER),
    (r"(sort|kthvalue|mode|topk)-(bool|uint8|int\d+|float16|bfloat16)-", r"output 1: \d+ of \d+ elements of i64", ANY_ORDER),
]


def left_out(operator):
    return LEFT_OUT.match(operator) is not None or "dropout" in operator


def reason(case, failure):
    """Why the case may fail in this way; nothing if it must not."""
    return next((why for name, how, why in REASONS if re.match(name, case) and re.search(how, failure)), "")


def is_counted(case):
    """False: nothing of it is lowered."""
    return not any(re.match(name, case) for name, how, _ in REASONS if how is NOT_LOWERED)
