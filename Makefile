# Script runner: every recipe is the command to type. `make setup` brings all that the targets need; each target also
# brings its own.

# lavapipe and SwiftShader use every core, so tests of one adapter run two packages at a time: one links, one runs.
WASM      = GOOS=js GOARCH=wasm
NODE_EXEC = node --stack-size=8192 $(CURDIR)/tools/node_exec.cjs
DAWN_TEST = REQUIRE_WEBGPU=1 REQUIRE_ORACLE= $(WASM) go test -p 2 -timeout 20m -exec="$(NODE_EXEC)"
DAWN_MODEL = ./model ./model/chat ./model/safetensors ./model/sample ./model/tokenizer
HOST      = CGO_ENABLED=0

MODEL  ?= demo/target
PROMPT ?= Tell me a short story about a lighthouse.
N      ?= 64
SEED   ?= 1
TEMP   ?= 0
export MODEL PROMPT

.PHONY: serve build dist generate test test-go test-dawn test-chrome test-limits test-reference test-long \
	bench bench-gpu gpu-pack fmt lint floors setup clean

serve: # build, then chat at http://localhost:8080; rebuilds and reloads on change
	tools/setup.sh go
	go run .

build: # web/: three WebAssembly programs, well compressed, with their sizes
	go run . build

dist: # a folder to put on any web server
	go run . dist

generate: # make generate MODEL=folder PROMPT="..." [N=64 SEED=1 TEMP=0]
	tools/setup.sh dawn
	$(WASM) go build -trimpath -ldflags='-s -w' -o .build/generate.wasm ./wasm/generate
	$(NODE_EXEC) .build/generate.wasm -model "$$MODEL" -prompt "$$PROMPT" -n $(N) -seed $(SEED) -temp $(TEMP)

test: test-go test-dawn test-chrome

test-go: # software driver and pure packages
	tools/setup.sh host oracle || tools/setup.sh host
	REQUIRE_WEBGPU= $(HOST) go test $$(go list ./... | grep -v /e2e) # those are test-chrome's

test-dawn: # every kernel and model in Node with Dawn; kernels on SwiftShader too; then every WGSL text through naga
	tools/setup.sh dawn
	rm -rf .build/wgsl && mkdir -p .build/wgsl
	FLINT_WGSL=$(CURDIR)/.build/wgsl $(DAWN_TEST) -count=1 ./shaders/... # run anew: a cached pass writes no texts
	$(DAWN_TEST) ./gpu/... $(DAWN_MODEL) ./wasm/wire ./wasm/blob ./wasm/engine
	if [ -e .tools/lavapipe/icd.json ]; then \
		FLINT_ALL_VIEWS=1 FLINT_REFERENCE_ONLY=llama_minicpm5 $(DAWN_TEST) -run TestReference ./model && \
		FLINT_ADAPTER=swiftshader $(DAWN_TEST) ./gpu/... ./shaders/... && \
		FLINT_ADAPTER=swiftshader $(DAWN_TEST) -run 'BitRule|Golden|Greedy' ./model; fi
	go run ./tools/wgslcheck .build/wgsl

test-limits: # kernels at WebGPU's default limits, which are all that some devices have
	tools/setup.sh dawn
	FLINT_DEFAULT_LIMITS=1 $(DAWN_TEST) -count=1 ./gpu/... ./shaders/...

test-chrome: # the page and the browser parts in headless Chromium
	tools/setup.sh host chrome
	go run . build -fast
	go build -o .build/ ./wasm/e2e/chromeexec
	REQUIRE_WEBGPU=1 REQUIRE_ORACLE= $(WASM) go test -p 1 -timeout 15m -exec="$(CURDIR)/.build/chromeexec" ./gpu/...
	REQUIRE_WEBGPU=1 go test -p 1 -timeout 15m ./wasm/e2e/...

test-reference: # golden numbers of every reference model: host, Dawn, and two of them in Chromium
	tools/setup.sh dawn chrome
	go build -o .build/ ./wasm/e2e/chromeexec
	tools/test-reference "$(NODE_EXEC)"

test-long: # each fuzz target for a minute (FUZZTIME=60s)
	tools/test-long

bench: # one table of kernels and models
	tools/setup.sh dawn
	$(WASM) go build -trimpath -ldflags='-s -w' -o .build/bench.wasm ./wasm/bench
	$(NODE_EXEC) .build/bench.wasm

bench-gpu: # the same, on a real GPU or not at all
	FLINT_ADAPTER=gpu $(MAKE) bench

gpu-pack: # .gpu-pack/: all of it for a GPU host without network, Go or make
	tools/setup.sh host
	tools/gpu-pack.sh

fmt:
	tools/setup.sh lint
	.tools/bin/gofumpt -l -w $$(git ls-files -co --exclude-standard '*.go')

lint:
	tools/setup.sh lint
	test -z "$$(.tools/bin/gofumpt -l $$(git ls-files -co --exclude-standard '*.go') | tee /dev/stderr)"
	$(HOST) go vet ./...
	$(WASM) go vet ./...
	printf 'host: CGO_ENABLED=0\njs: %s\n' "$(WASM)" | .tools/bin/staticcheck -matrix ./... # unused means: on both

floors:
	tools/floors

setup:
	tools/setup.sh host dawn chrome oracle lint

clean: # what was built; .tools stays, since it is slow to bring
	rm -rf .build .gpu-pack dist web/*.wasm web/*.br web/*.gz web/wasm_exec.js
