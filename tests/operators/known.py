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
ANY_ORDER = "PyTorch does not define which of several equal elements comes first"

# Patterns of case names (OPERATOR-DTYPE-NUMBER).
REASONS = [
    (r"(linalg\.)?(svd|eig|eigh|eigvals|eigvalsh|svdvals|qr|lstsq|pinv|cond|matrix_rank|polar|matrix_sqrth|householder_product|ldl_\w+)"
     r"(\.[\w.]+)?-", SINGULAR),
    (r"(norm\.nuc|geqrf|ormqr|pinverse|linalg\.norm|linalg\.matrix_norm|linalg\.norm\.subgradients_at_zero)-", SINGULAR),
    (r"(igamma|igammac|polygamma\.\w+|special\.polygamma\.\w+|special\.zeta|special\.airy_ai|special\.(\w*bessel\w+)|special\.\w+_polynomial_\w+)-",
     SPECIAL),
    (r"(argsort|sort|kthvalue|median|nanmedian|mode|topk)-(bool|uint8|int\d+|float16|bfloat16)-", ANY_ORDER),
]


def left_out(operator):
    return LEFT_OUT.match(operator) is not None or "dropout" in operator


def reason(case):
    """Why the case may fail; nothing if it must pass."""
    return next((why for pattern, why in REASONS if re.match(pattern, case)), "")
