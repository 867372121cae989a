"""Runs the tests of a step one after the other, and counts them as tests/run.sh reads it."""
import inspect
import time
import traceback


def tests_of(names):
    """{name: function} of the functions test_* among a module's globals()."""
    return {name: test for name, test in names.items() if name.startswith("test_") and inspect.isfunction(test)}


def run_all(step, tests):
    """`tests`: {name: function without arguments}. Each is run, whatever another does. Returns the exit status."""
    failed = 0
    for name, test in tests.items():
        start = time.perf_counter()
        try:
            test()
            verdict = "ok"
        except Exception as error:  # every test is run
            failed += 1
            verdict = "FAILED"
            text = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            print("    " + text.strip().replace("\n", "\n    "))
        print(f"  {name}: {verdict} ({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"{step}: {len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0
