#!/usr/bin/env bash
# gpu-pack.sh [FOLDER]: packs the engine, the js/wasm test binaries and their data for a Linux GPU host that has no
# network, Go or make, and takes files in small pieces. FOLDER (default .gpu-pack) then holds setup.sh and part0,
# part1, ... of at most 12 MiB each, which can be sent apart.
#
# The host needs sh, tar, xz, a Vulkan driver with loader, Node 20 or newer on PATH, and the npm package webgpu, whose
# folder WEBGPU_DIR names. There:
#
#	mkdir -p /tmp/flint-gpu && cp FOLDER/part*/* /tmp/flint-gpu/    for parts that come one by one
#	. FOLDER/setup.sh                                               when all are there: sets FLINT_GPU
#	$FLINT_GPU/run.sh test                                          or reference, generate, bench; see run.sh
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.gpu-pack}
shared=${FLINT_SHARED:-../shared}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
stage=$work/flint-gpu
repo=$stage/flint # laid out as the repository, so that tests find their data where they look for it
mkdir -p "$repo/tools" "$stage/bin" "$stage/shared"
export GOOS=js GOARCH=wasm

echo "building test binaries ..."
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./gpu/... ./shaders/... ./model/...); do
	folder=${package#*/}
	go test -c -trimpath -ldflags='-s -w' -o "$stage/bin/$(tr / . <<<"$folder").test.wasm" "./$folder"
	mkdir -p "$repo/$folder"
	if [ -d "$folder/testdata" ]; then cp -R "$folder/testdata" "$repo/$folder/"; fi
done
for program in generate bench; do
	if [ -d "wasm/$program" ]; then go build -trimpath -ldflags='-s -w' -o "$stage/bin/$program.wasm" "./wasm/$program"; fi
done

cp go.mod "$repo/"
cp tools/node_exec.cjs web/replay.js "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$repo/tools/"
cp -R demo "$repo/"
if [ -d "$shared/reference" ]; then
	mkdir -p "$stage/shared/models/demo-target"
	cp -R "$shared/reference" "$stage/shared/"
	cp -R "$shared/models/stories260K" "$stage/shared/models/"
	for file in "$shared"/models/demo-target/*; do # what the demo holds already is not packed twice
		name=$(basename "$file")
		if cmp -s "$file" "demo/target/$name"; then
			ln -s "../../../flint/demo/target/$name" "$stage/shared/models/demo-target/$name"
		else
			cp "$file" "$stage/shared/models/demo-target/"
		fi
	done
else
	echo "gpu-pack: no reference cases in $shared (set FLINT_SHARED); packing without them" >&2
fi
# NVIDIA's Vulkan driver loads these from the system, and a host without a display lacks them.
if command -v apt-get >/dev/null; then
	mkdir -p "$stage/debs"
	(cd "$stage/debs" && apt-get -q -o APT::Sandbox::User=root download libvulkan1 libglvnd0 libgl1 libglx0 libegl1 \
		libx11-6 libxext6 libxcb1 libxau6 libxdmcp6 >/dev/null 2>&1) || echo "gpu-pack: no Debian packages of the OpenGL loaders; the host must have them" >&2
fi
cp tools/gpu-run.sh "$stage/run.sh" && chmod +x "$stage/run.sh"

echo "packing ..."
rm -rf "$out" && mkdir -p "$out"
tar -C "$work" -cf - flint-gpu | xz -T0 -6 >"$work/flint.tar.xz"
split -b 12m -d -a 2 "$work/flint.tar.xz" "$work/flint.tar.xz."
i=0
for part in "$work"/flint.tar.xz.*; do
	mkdir "$out/part$i" && mv "$part" "$out/part$i/"
	i=$((i + 1))
done
cat >"$out/setup.sh" <<SETUP
# Source me in the folder above FLINT's parts, with sh: unpacks what has arrived and sets FLINT_GPU.
FLINT_GPU=\${FLINT_GPU_DIR:-/tmp/flint-gpu}
mkdir -p "\$FLINT_GPU"
cp $out/part*/* "\$FLINT_GPU/" 2>/dev/null || true
if [ ! -x "\$FLINT_GPU/flint-gpu/run.sh" ]; then
	if [ "\$(cat "\$FLINT_GPU"/flint.tar.xz.* 2>/dev/null | sha256sum | cut -d' ' -f1)" = $(sha256sum <"$work/flint.tar.xz" | cut -d' ' -f1) ]; then
		cat "\$FLINT_GPU"/flint.tar.xz.* | xz -dc | tar -C "\$FLINT_GPU" -xf -
		if [ "\$(id -u)" = 0 ] && command -v dpkg >/dev/null && ! ldconfig -p | grep -q libGLdispatch; then
			for deb in "\$FLINT_GPU"/flint-gpu/debs/*.deb; do dpkg -x "\$deb" /; done
			ldconfig
		fi
	else
		echo "flint: the parts in \$FLINT_GPU are not the $i parts that were packed" >&2
		ls -l "\$FLINT_GPU" >&2
	fi
fi
export FLINT_GPU="\$FLINT_GPU/flint-gpu"
SETUP
du -sh "$out"/part*
