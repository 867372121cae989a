#!/bin/bash
# Installs what is missing, builds, and runs every test. A second call only builds what changed.
#
#   bash tests/run.sh [--all] [STEP ...]      steps: unit golden models targets zoo random operators command sanitize fuzz
#                                             default: all
#
# unit      what ctest knows: unit, differential and size tests
# golden    textual IR through the stages (tests/golden)
# models    every model of tests/models at every stage, the ones saved after run_decompositions(), some with all their dimensions
#           dynamic (--all: every one), inputs that lie in special ways, and dynamic models with a variant for each size
# targets   the runtime for aarch64, riscv64 and 32-bit Arm, its size, its tests (the verifier's among them) on 32-bit Arm, small
#           models on each target that is not this machine's, and static libraries for microcontrollers, alone and in
#           examples/firmware, under QEMU (--all: every model of the bench on cortex-a78ae and rv64gcv, and more on the others)
# zoo       a few whole models of torchvision, timm and transformers, compiled and run; --all: the 90 of tests/models/whole_models.txt,
#           and what ../shared/conformance/zoo_models.txt names besides where it lies there
# random    random programs beside PyTorch (tests/operators/random_graphs.py): a fixed sample, or for NACRE_RANDOM_SECONDS from NACRE_RANDOM_SEED (1)
# operators a fixed sample of PyTorch's own operator database (tests/operators); --all: three cases an operator and dtype
# command   the nacre command on damaged and missing files, full disks, wrong shapes (tests/command)
# sanitize  the tests of formats/ and runtime/ with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer
# fuzz      the artifact verifier under libFuzzer for NACRE_FUZZ_SECONDS (60), from NACRE_FUZZ_SEED (1; 0: another each time)
#
# NACRE_MODELS names folders of further cases (separated by colons) that the models step also verifies; there a clear
# refusal counts as skipped, since they show how far nacre is.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=../.ci/setup.sh
source "$root/.ci/setup.sh"
export PYTHONDONTWRITEBYTECODE=1
everything=()
if [ "${1:-}" = --all ]; then
  everything=(--all)
  shift
fi
if [ $# -eq 0 ]; then
  set -- unit golden models targets zoo random operators command sanitize fuzz
fi

passed=0
failed=0
failures=()

# A step's name, how many of its tests passed and failed, and its exit status.
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  if [ "$3" -gt 0 ] || [ "$4" -ne 0 ]; then
    [ "$3" -gt 0 ] || failed=$((failed + 1)) # it ended before it could count
    failures+=("$1")
  fi
}

# Runs a command whose output has a line "NAME: N passed, N failed".
counted() {
  local name=$1 log status
  shift
  log=$(mktemp)
  "$@" 2>&1 | tee "$log"
  status=$?
  # shellcheck disable=SC2046  # two numbers
  set -- $(sed -n 's/^.*: \([0-9]*\) passed, \([0-9]*\) failed.*$/\1 \2/p' "$log" | tail -1)
  count "$name" "${1:-0}" "${2:-0}" "$status"
  rm -f "$log"
}

# ctest in a build folder, as "NAME: N passed, N failed".
tests_of() {
  local name=$1 folder=$2 log status
  shift 2
  log=$(mktemp)
  ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" "$@" | tee "$log"
  status=$?
  # "97% tests passed, 3 tests failed out of 100"
  # shellcheck disable=SC2046  # two numbers
  set -- $(sed -n 's/^.*tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*$/\1 \2/p' "$log")
  count "$name" $((${2:-0} - ${1:-0})) "${1:-0}" "$status"
  [ "${2:-0}" -gt 0 ] || count "$name: no tests found" 0 1 1
  rm -f "$log"
}

models() {
  local cases=$NACRE_CACHE/cases decomposed=$NACRE_CACHE/cases-decomposed sizes=$NACRE_CACHE/cases-sizes inputs=$NACRE_CACHE/cases-inputs folders=() more
  local some=(--only floor,autoencoder,ds_cnn,gru_keyword,tcn_denoiser,resnet8,unet_small,minilm)
  [ ${#everything[@]} -eq 0 ] || some=()
  nacre_say "exporting the models that are not exported yet"
  "$NACRE_PYTHON" "$root/tests/models/export.py" --out "$cases" --jobs "$(nproc)" || count "export" 0 1 1
  "$NACRE_PYTHON" "$root/tests/models/export.py" --out "$decomposed" --decomposed --small --jobs "$(nproc)" ||
    count "export, decomposed" 0 1 1
  "$NACRE_PYTHON" "$root/tests/models/dynamic.py" --out "$sizes" "${some[@]}" --jobs "$(nproc)" || count "export, sizes" 0 1 1
  "$NACRE_PYTHON" "$root/tests/models/inputs.py" --out "$inputs" || count "export, inputs" 0 1 1
  "$NACRE_PYTHON" "$root/tests/models/by_data.py" --out "$NACRE_CACHE/cases-by-data" --jobs "$(nproc)" || count "export, by data" 0 1 1
  IFS=: read -ra more <<<"${NACRE_MODELS:-}"
  for folder in "${more[@]}"; do
    [ -z "$folder" ] || folders+=("$folder")
  done
  local verify=("$NACRE_PYTHON" "$root/tests/models/verify.py" --tool "$NACRE_BUILD/bin/nacre" --jobs "$(nproc)")
  counted models "${verify[@]}" "$cases" "$NACRE_CACHE/cases-by-data" ${folders:+--frontier "${folders[@]}"}
  counted "models, decomposed" "${verify[@]}" --stage artifact "$decomposed"
  counted "models, sizes" "${verify[@]}" --stage artifact "$sizes"
  counted "models, inputs" "${verify[@]}" "$inputs"
  counted "models, variants" "${verify[@]}" --stage artifact --specialize \
    --only autoencoder_dynamic,ds_cnn_dynamic,gru_keyword_dynamic,resnet8_dynamic,minilm_dynamic,resnet18_dynamic "$cases"
}

targets() {
  local family target sizes machine
  local bench=floor,ds_cnn,resnet8,mobilenet_v1_025,autoencoder,gru_keyword,lstm_speech,tcn_denoiser,shufflenet_v2,mobilenet_v2,mobilenet_v3_large,efficientnet_b0,resnet18,resnet50,resnet50_b8,convnext_tiny,vit_b_16,swin_t,lraspp_mobilenet_v3,unet_small,yolo11n,minilm,llama_prefill,llama_decode
  local small=floor,autoencoder,ds_cnn,resnet8,mobilenet_v1_025,gru_keyword,counter,bits,spectra,grouped
  [ ${#everything[@]} -eq 0 ] || small=$small,complex_numbers,algebra,any_length,crepe_tiny,gru_keyword_dynamic,ds_cnn_dynamic,minilm,tcn_denoiser,unet_small,shufflenet_v2,lstm_speech
  nacre_setup cross || { count targets 0 1 1; return; }
  # Where the cross compilers have only come now.
  if ! ninja -C "$NACRE_BUILD" -t query nacre_remote_aarch64 >/dev/null 2>&1; then
    nacre_quietly cmake "$NACRE_BUILD" || { count targets 0 1 1; return; }
  fi
  ninja -C "$NACRE_BUILD" nacre_remote_aarch64 nacre_remote_riscv64 nacre_remote_arm >&2 || { count targets 0 1 1; return; }
  for machine in aarch64-linux-gnu riscv64-linux-gnu arm-linux-gnueabihf; do
    family=${machine%%-*}
    nacre_say "the runtime for $family"
    sizes=$NACRE_BUILD/$family/lib
    bash "$root/tests/size/runtime.sh" "$sizes/libnacre.so" "$sizes/libnacre.a" "$machine-gcc" "$machine-" &&
      count "size $family" 1 0 0 || count "size $family" 0 1 1
  done
  nacre_say "tests of the runtime on 32-bit Arm"
  if nacre_setup_build "$NACRE_BUILD-arm" -DNACRE_HOST=OFF "-DCMAKE_TOOLCHAIN_FILE=$root/targets/cmake/arm-linux-gnueabihf.cmake" \
    "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-arm;-L;/usr/arm-linux-gnueabihf" tests_of_runtime; then
    tests_of "targets, runtime on arm" "$NACRE_BUILD-arm" -L runtime
  else
    count "targets, runtime on arm" 0 1 1
  fi
  "$NACRE_PYTHON" "$root/tests/models/export.py" --out "$NACRE_CACHE/cases" --jobs "$(nproc)" || count "export" 0 1 1
  counted "targets, remote" "$NACRE_PYTHON" "$root/tests/command/remote.py" --tool "$NACRE_BUILD/bin/nacre" --case "$NACRE_CACHE/cases/ds_cnn"
  counted "targets, library" "$NACRE_PYTHON" "$root/tests/command/library.py" --tool "$NACRE_BUILD/bin/nacre" --cases "$NACRE_CACHE/cases"
  # Static libraries: MLPerf Tiny's networks on QEMU's boards, small models elsewhere.
  for target in cortex-m4 cortex-m7 cortex-m55 rv64gc native; do
    nacre_say "static libraries on $target"
    counted "targets, static $target" "$NACRE_PYTHON" "$root/tests/models/verify.py" --tool "$NACRE_BUILD/bin/nacre" --jobs "$(nproc)" \
      --stage artifact --emit static --target "$target" --only ds_cnn,resnet8,mobilenet_v1_025,autoencoder,gru_keyword,counter "$NACRE_CACHE/cases"
  done
  counted "targets, tiles" "$NACRE_PYTHON" "$root/tests/command/tiles.py" --tool "$NACRE_BUILD/bin/nacre"
  counted "targets, firmware" "$NACRE_PYTHON" "$root/tests/command/firmware.py" --tool "$NACRE_BUILD/bin/nacre" --out "$NACRE_BUILD"
  for target in aarch64 cortex-a78ae neoverse-v1 rv64gc rv64gcv cortex-a7; do
    nacre_say "models on $target"
    counted "targets, $target" "$NACRE_PYTHON" "$root/tests/models/verify.py" --tool "$NACRE_BUILD/bin/nacre" --jobs "$(nproc)" \
      --stage artifact --target "$target" --only "$small" "$NACRE_CACHE/cases"
  done
  [ ${#everything[@]} -gt 0 ] || return
  for target in cortex-a78ae rv64gcv; do
    nacre_say "the bench's models on $target"
    counted "targets, bench on $target" "$NACRE_PYTHON" "$root/tests/models/verify.py" --tool "$NACRE_BUILD/bin/nacre" --jobs "$(nproc)" \
      --timeout 7200 --stage artifact --target "$target" --only "$bench" "$NACRE_CACHE/cases"
  done
}

zoo() {
  local cases=$NACRE_CACHE/cases-zoo further=$root/../shared/conformance/zoo_models.txt python
  local sample=torchvision/shufflenet_v2_x0_5,timm/test_byobnet,timm/xcit_nano_12_p8_224,transformers/t5,transformers/mamba,transformers/wavlm
  local names=(--only "$sample") some=(--only "${sample//\//-}") # the case of PACKAGE/NAME is PACKAGE-NAME
  if [ ${#everything[@]} -gt 0 ]; then
    names=() some=()
    [ ! -e "$further" ] || names=(--names "$further")
  fi
  python=$(nacre_environment_over zoo "$NACRE_PYTHON" "$root/.ci/requirements-zoo.txt") || { count zoo 0 1 1; return; }
  nacre_say "exporting the whole models that are not exported yet"
  "$python" "$root/tests/models/whole.py" --out "$cases" --jobs "$(nproc)" "${names[@]}" || count "export, zoo" 0 1 1
  counted zoo "$NACRE_PYTHON" "$root/tests/models/verify.py" --tool "$NACRE_BUILD/bin/nacre" --jobs "$(nproc)" --timeout 900 \
    --stage artifact "${some[@]}" "$cases"
}

operators() {
  local python
  python=$(nacre_environment_over operators "$NACRE_PYTHON" "$root/.ci/requirements-operators.txt") || { count operators 0 1 1; return; }
  counted operators "$python" "$root/tests/operators/run.py" --tool "$NACRE_BUILD/bin/nacre" --out "$NACRE_CACHE/operators" \
    --jobs "$(nproc)" "${everything[@]}"
}

sanitize() {
  local kinds folder
  for kinds in address,undefined thread; do
    folder=$NACRE_BUILD-${kinds%%,*}
    nacre_setup_build "$folder" -DNACRE_HOST=OFF -DNACRE_CUDA=ON "-DNACRE_SANITIZE=$kinds" tests_of_runtime ||
      { count "sanitize $kinds" 0 1 1; continue; }
    # A test asks for more memory than there is: malloc says so with NULL, and so must theirs.
    ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
      TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 \
      tests_of "sanitize $kinds" "$folder" -L runtime
  done
}

fuzz() {
  local folder=$NACRE_BUILD-fuzz seconds=${NACRE_FUZZ_SECONDS:-60} seed=${NACRE_FUZZ_SEED:-1} corpus status
  nacre_setup_build "$folder" -DNACRE_HOST=OFF -DNACRE_TESTS=ON -DNACRE_SANITIZE=address,undefined,fuzzer-no-link \
    -DNACRE_FUZZ=ON -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 fuzz_artifact ||
    { count fuzz 0 1 1; return; }
  corpus=$folder/corpus
  mkdir -p "$corpus"
  for artifact in "$NACRE_BUILD"/quickstart/pnet.nacre "$NACRE_BUILD"/artifacts/floor.nacre; do
    [ ! -e "$artifact" ] || cp "$artifact" "$corpus/"
  done
  nacre_say "fuzzing the artifact verifier for $seconds s from seed $seed"
  "$folder/tests/fuzz_artifact" -max_total_time="$seconds" -seed="$seed" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$folder/" "$corpus" "$root"/tests/fuzz/corpus 2>&1 | tail -n 15
  status=${PIPESTATUS[0]}
  count fuzz $((status == 0)) $((status != 0)) "$status"
}

nacre_setup || exit 1
for step; do
  start=$SECONDS
  nacre_say "tests: $step"
  case $step in
    unit) tests_of unit "$NACRE_BUILD" ;;
    golden) counted golden "$NACRE_PYTHON" "$root/tests/golden/run.py" --tool "$NACRE_BUILD/bin/nacre" ;;
    models) models ;;
    targets) targets ;;
    zoo) zoo ;;
    random) counted random "$NACRE_PYTHON" "$root/tests/operators/random_graphs.py" --tool "$NACRE_BUILD/bin/nacre" \
      --out "$NACRE_CACHE/random" --jobs "$(nproc)" --seed "${NACRE_RANDOM_SEED:-1}" \
      ${NACRE_RANDOM_SECONDS:+--seconds "$NACRE_RANDOM_SECONDS"} ;;
    operators) operators ;;
    command) counted command "$NACRE_PYTHON" "$root/tests/command/run.py" --tool "$NACRE_BUILD/bin/nacre" \
      --cases "$NACRE_CACHE/cases" ;;
    sanitize) sanitize ;;
    fuzz) fuzz ;;
    *)
      nacre_fail "no step '$step'"
      exit 2
      ;;
  esac
  nacre_say "tests: $step took $((SECONDS - start)) s"
done
if [ ${#failures[@]} -gt 0 ]; then
  printf 'failed in: %s\n' "${failures[*]}"
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
