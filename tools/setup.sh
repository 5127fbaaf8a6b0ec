#!/usr/bin/env bash
# setup.sh STAGE...: installs what the named stages need and is quick when it is all there.
#
#   go      checks Go                                                  (make serve, build, dist)
#   host    checks Go, Node, npm, git                                  (everything else)
#   dawn    WebGPU for Node: Dawn, a Vulkan loader, a software GPU     (make test-dawn, generate, bench)
#   chrome  headless Chromium                                          (make test-chrome)
#   oracle  other people's tokenizer and template engines to test against
#   lint    gofumpt and staticcheck
#
# npm packages and Go tools go to .tools/ in the repository. System packages are installed on Debian and Ubuntu when
# run as root; elsewhere the script names what is missing and stops.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.tools
mkdir -p "$tools"

WEBGPU_VERSION=0.6.2
ORACLES="@huggingface/jinja@0.5.11 tokenizers@0.23.2"
GOFUMPT_VERSION=v0.12.0
STATICCHECK_VERSION=v0.7.0

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# package NAME [FEDORA [ARCH]]: a system package, by its Debian name and what others call it.
package() {
	local debian=$1 fedora=${2:-$1} arch=${3:-$1}
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing $debian"
		apt_update
		DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$debian" >"$tools/apt.log" 2>&1 ||
			{ tail -n 20 "$tools/apt.log" >&2; die "apt-get install $debian failed (see above)"; }
		return
	fi
	die "missing package. Debian, Ubuntu (as root): apt-get install $debian; Fedora: dnf install $fedora; Arch: pacman -S $arch; then run this again"
}

apt_updated=
apt_update() {
	[ -n "$apt_updated" ] && return
	# A source that fails need not be the one that has the package: what follows says so if it is.
	apt-get -q update >"$tools/apt.log" 2>&1 || { tail -n 5 "$tools/apt.log" >&2; say "apt-get update failed (see above); going on with the lists at hand"; }
	apt_updated=1
}

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; } # at_least NEED HAVE

go_() {
	local have
	command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer (https://go.dev/dl), package golang"
	have=$(go env GOVERSION) && at_least 1.26 "${have#go}" || die "Go is ${have#go}, want 1.26 or newer (https://go.dev/dl)"
}

host() {
	local have
	go_
	command -v node >/dev/null || die "Node is missing: install Node 20 or newer (https://nodejs.org), package nodejs"
	have=$(node --version) && at_least 20 "${have#v}" || die "Node is $have, want 20 or newer (https://nodejs.org)"
	command -v npm >/dev/null || die "npm is missing: it comes with Node (https://nodejs.org), package npm"
	command -v git >/dev/null || package git
}

# npm_install FOLDER PACKAGE@VERSION...: into .tools/FOLDER, unless these very versions are there.
npm_install() {
	local folder=$tools/$1 want
	shift
	want="$*"
	[ "$(cat "$folder/installed" 2>/dev/null)" = "$want" ] && return
	say "npm install $want"
	mkdir -p "$folder"
	npm install --no-save --no-audit --no-fund --silent --ignore-scripts --prefix "$folder" "$@" || die "npm install $want failed"
	echo "$want" >"$folder/installed"
}

dawn() {
	host
	npm_install dawn "webgpu@$WEBGPU_VERSION"
	[ "$(uname -s)" = Linux ] || return 0 # elsewhere Dawn uses the system's own GPU interface
	[ -n "${VK_DRIVER_FILES:-}" ] || { chrome; lavapipe; } # Chromium brings SwiftShader, which always works
	ldconfig -p | grep 'libvulkan\.so\.1' >/dev/null || # not -q: it would end ldconfig early, which pipefail takes for a failure
		package libvulkan1 vulkan-loader vulkan-icd-loader
}

chromium_path() { command -v chromium || command -v chromium-browser || command -v google-chrome || true; }

chrome() {
	[ -n "${FLINT_CHROMIUM:-}" ] && return
	[ -n "$(chromium_path)" ] || package chromium
	[ -n "$(chromium_path)" ] || die "no chromium on PATH after installing it; set FLINT_CHROMIUM to the browser's path"
}

# lavapipe: Mesa's software GPU from Debian's backports, unpacked into .tools/lavapipe beside the system's own. It is
# several times faster than SwiftShader and has shader-f16, and Dawn refuses the version that Debian 12 itself ships.
# Where it cannot be had, SwiftShader does everything but f16.
lavapipe() {
	local dir=$tools/lavapipe
	[ -e "$dir/icd.json" ] || [ -e "$dir/unavailable" ] && return
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -q '^VERSION_CODENAME=bookworm' /etc/os-release && [ "$(dpkg --print-architecture)" = amd64 ] ||
		{ say "lavapipe 25 is fetched on Debian 12 as root only; the software GPU is SwiftShader (no f16)"; return; }
	dpkg -s mesa-vulkan-drivers >/dev/null 2>&1 || package mesa-vulkan-drivers # its libraries
	apt_update
	local source
	source=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' | sort -u | head -n1)
	rm -rf "$dir" && mkdir -p "$dir/lists/partial"
	# A package list of our own: the machine's sources stay as they are.
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $source bookworm-backports main" >"$dir/backports.list"
	local apt=(apt-get -q -o Dir::Etc::SourceList="$dir/backports.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$dir/lists"
		-o APT::Sandbox::User=root)
	if "${apt[@]}" update >"$dir/log" 2>&1 && (cd "$dir" && "${apt[@]}" download mesa-vulkan-drivers/bookworm-backports >>log 2>&1) &&
		dpkg -x "$dir"/mesa-vulkan-drivers_*.deb "$dir/root" && icd; then
		say "lavapipe 25 is in .tools/lavapipe"
	else
		tail -n 3 "$dir/log" >&2
		touch "$dir/unavailable"
		say "no lavapipe from bookworm-backports; the software GPU is SwiftShader (no f16). Remove .tools/lavapipe to try again"
	fi
	rm -rf "$dir/lists" "$dir"/*.deb "$dir/backports.list"
}

# icd writes the driver's description, once its library's own needs are found.
icd() {
	local lib=$tools/lavapipe/root/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so
	[ -e "$lib" ] || return 1
	if ldd "$lib" | grep 'not found' >>"$tools/lavapipe/log"; then return 1; fi
	# The path is relative to the description's folder, so that the repository can move.
	printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "./%s", "api_version": "1.4.305"}}\n' "${lib#"$tools/lavapipe/"}" >"$tools/lavapipe/icd.json"
}

oracle() {
	host
	# shellcheck disable=SC2086 # a list
	npm_install oracle $ORACLES
}

# go_tool NAME PACKAGE VERSION: into .tools/bin, unless that very version is there.
go_tool() {
	go version -m "$tools/bin/$1" 2>/dev/null | grep "mod.*$3" >/dev/null && return
	say "go install $2@$3"
	GOBIN=$tools/bin GOFLAGS=-mod=mod go install "$2@$3"
}

lint() {
	host
	go_tool gofumpt mvdan.cc/gofumpt "$GOFUMPT_VERSION"
	go_tool staticcheck honnef.co/go/tools/cmd/staticcheck "$STATICCHECK_VERSION"
}

[ $# -gt 0 ] || die "usage: tools/setup.sh go|host|dawn|chrome|oracle|lint ..."
for stage in "$@"; do
	case $stage in
	go) go_ ;;
	host | dawn | chrome | oracle | lint) "$stage" ;;
	*) die "unknown stage '$stage': want go, host, dawn, chrome, oracle or lint" ;;
	esac
done
