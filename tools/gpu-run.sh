#!/bin/sh
# run.sh COMMAND: runs the packed engine on this host's GPU.
#
#   test [PACKAGE] [ARGUMENT...]   all test binaries, or gpu, shaders, model, model/safetensors, ... with -test.* flags
#   reference                      every reference model, and the total
#   generate [ARGUMENT...]         text from the demo model; arguments as of wasm/generate
#   bench [ARGUMENT...]            one table
#
# WEBGPU_DIR names the folder of the npm package webgpu. VK_DRIVER_FILES names the Vulkan driver where the loader does
# not find it. FLINT_ADAPTER=gpu unless set: no GPU is an error, never a slow run on the CPU.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${WEBGPU_DIR:?names the folder of the npm package webgpu; set it}"
command -v node >/dev/null || { echo "run.sh: no node on PATH" >&2; exit 1; }
export FLINT_ADAPTER="${FLINT_ADAPTER:-gpu}" REQUIRE_WEBGPU=1 FLINT_SHARED="$here/shared" FLINT_REFERENCE="$here/shared/reference"

wasm() { # wasm FOLDER PROGRAM ARGUMENT...
	folder=$1 program=$2
	shift 2
	(cd "$here/flint/$folder" && exec node --stack-size=8192 "$here/flint/tools/node_exec.cjs" "$here/bin/$program.wasm" "$@")
}

# one PACKAGE ARGUMENT...: a package's tests, closed by a line as of go test.
one() {
	package=$1
	shift
	if wasm "$package" "$(echo "$package" | tr / .).test" -test.timeout=9m "$@"; then
		echo "ok  	flint/$package"
	else
		echo "FAIL	flint/$package"
		return 1
	fi
}

command=${1:-test}
[ $# -eq 0 ] || shift
case $command in
test)
	if [ $# -gt 0 ] && [ -e "$here/bin/$(echo "$1" | tr / .).test.wasm" ]; then
		one "$@"
		exit
	fi
	failed=0
	for binary in "$here"/bin/*.test.wasm; do
		package=$(basename "$binary" .test.wasm | tr . /)
		one "$package" "$@" || failed=1
	done
	exit $failed
	;;
reference)
	log=$(mktemp)
	failed=0
	REQUIRE_SHARED=1 one model -test.v -test.run '^TestReference$' >"$log" 2>&1 || failed=1
	cat "$log"
	count() { grep -cE "^ +--- $1: TestReference/[^/ ]+ \(" "$log" || true; }
	passed=$(count PASS)
	[ "$passed" -gt 0 ] || failed=1
	echo "$passed passed, $(count FAIL) failed, $(count SKIP) skipped"
	rm -f "$log"
	exit $failed
	;;
generate) wasm . generate -model demo/target "$@" ;;
bench) wasm . bench "$@" ;;
*)
	echo "run.sh: unknown command '$command': want test, reference, generate or bench" >&2
	exit 2
	;;
esac
