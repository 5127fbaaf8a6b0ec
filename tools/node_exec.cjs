// node_exec.cjs PROGRAM.wasm [ARGUMENT...]: runs a js/wasm Go program, `go test` binaries included, under Node with
// Dawn's WebGPU (npm package webgpu), so that what it finds in globalThis is what a browser's worker offers.
//
//   GOOS=js GOARCH=wasm go test -exec="node --stack-size=8192 $PWD/tools/node_exec.cjs" ./gpu/...
//
// FLINT_ADAPTER  gpu, lavapipe or swiftshader: this one or an error. Unset: the first of them that answers.
// WEBGPU_DIR     the webgpu package, default .tools/dawn/node_modules/webgpu
// FLINT_WGSL     a folder to write the text of every shader module to, for tools/wgslcheck
// FLINT_*, REQUIRE_*, GO* and a few usual variables reach the program.
"use strict";

const crypto = require("crypto");
const fs = require("fs");
const os = require("os");
const path = require("path");
const vm = require("vm");
const { execFileSync } = require("child_process");
const { pathToFileURL } = require("url");

const root = path.dirname(__dirname);
const tools = path.join(root, ".tools");
const program = process.argv[2];

// Mistake is an error of the caller's making: its message is enough, without a stack.
class Mistake extends Error {}

function die(message) {
	fs.writeSync(2, `node_exec: ${message}\n`);
	process.exit(1);
}

// firstFile returns the first path that exists. A packed copy has its companions beside it, the repository elsewhere.
function firstFile(...paths) {
	return paths.find((p) => p && fs.existsSync(p));
}

// drivers lists the Vulkan drivers to try, best first, as {name, file}. A file of undefined leaves the choice to the
// Vulkan loader. Descriptions of GPU drivers are installed without a GPU too, so a device node has to be there as well.
function drivers(env, exists) {
	const lavapipe = { name: "lavapipe", file: path.join(tools, "lavapipe", "icd.json") };
	const swiftshader = {
		name: "swiftshader",
		file: ["/usr/lib/chromium", "/usr/lib64/chromium-browser", "/opt/google/chrome"].map((d) => `${d}/vk_swiftshader_icd.json`).find(exists),
	};
	const gpu = { name: "gpu", file: env.VK_DRIVER_FILES || env.VK_ICD_FILENAMES };
	if (!gpu.file && exists("/dev/nvidiactl")) {
		// Containers get the NVIDIA driver in places where the loader does not look.
		gpu.file = ["/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/nvidia/share/vulkan/icd.d"].map((d) => `${d}/nvidia_icd.json`).find(exists);
	}
	const hasGPU = gpu.file || exists("/dev/nvidiactl") || exists("/dev/dri/renderD128") || exists("/dev/dxg");
	const byName = {
		gpu: [gpu],
		lavapipe: exists(lavapipe.file) ? [lavapipe] : [],
		swiftshader: swiftshader.file ? [swiftshader] : [],
	};
	const want = env.FLINT_ADAPTER;
	if (want) {
		if (!byName[want]) throw new Mistake(`FLINT_ADAPTER is '${want}', want gpu, lavapipe or swiftshader`);
		if (byName[want].length === 0) throw new Mistake(`FLINT_ADAPTER asks for ${want}, which is not installed: run tools/setup.sh dawn`);
		return byName[want];
	}
	return [...(hasGPU ? byName.gpu : []), ...byName.lavapipe, ...byName.swiftshader];
}

// openGPU puts navigator.gpu and the WebGPU classes on globalThis, for the first driver that has an adapter. With none
// the program runs without navigator.gpu, as in a browser that lacks WebGPU; its tests then skip or fail by their own rule.
async function openGPU() {
	if (!Object.getOwnPropertyDescriptor(globalThis, "navigator")) globalThis.navigator = {};
	const folder = process.env.WEBGPU_DIR || path.join(tools, "dawn", "node_modules", "webgpu");
	if (!fs.existsSync(folder)) {
		if (process.env.FLINT_ADAPTER) throw new Mistake(`no webgpu package in ${folder}: run tools/setup.sh dawn`);
		return;
	}
	const { create, globals } = await import(pathToFileURL(path.join(folder, "index.js")));
	const flags = (process.env.DAWN_FLAGS || "").split(" ").filter(Boolean);
	const found = process.platform === "linux" ? drivers(process.env, fs.existsSync) : [{ name: "gpu" }];
	process.env.XDG_RUNTIME_DIR ??= os.tmpdir(); // lavapipe complains on stderr without one
	for (const driver of found) {
		if (driver.file) {
			process.env.VK_DRIVER_FILES = driver.file;
			process.env.VK_ICD_FILENAMES = driver.file; // loaders before 1.3.207 know only this name
		}
		const gpu = create(flags);
		if (await gpu.requestAdapter({ powerPreference: "high-performance" })) {
			Object.assign(globalThis, globals);
			Object.defineProperty(globalThis.navigator, "gpu", { value: gpu, configurable: true });
			if (process.env.FLINT_WGSL) saveShaders(globals.GPUDevice, process.env.FLINT_WGSL);
			return;
		}
		if (process.env.FLINT_ADAPTER) {
			throw new Mistake(`FLINT_ADAPTER asks for ${driver.name}, but Dawn finds no adapter with ${driver.file || "the system's Vulkan drivers"}`);
		}
		if (driver.name === "gpu") fs.writeSync(2, "node_exec: the GPU's Vulkan driver has no WebGPU adapter; trying software\n");
	}
}

// saveShaders writes the text of every shader module to the folder, named by its label and content.
function saveShaders(GPUDevice, folder) {
	const { createShaderModule } = GPUDevice.prototype;
	GPUDevice.prototype.createShaderModule = function (descriptor) {
		const label = (descriptor.label || "module").replace(/[^\w.-]+/g, "_");
		const sum = crypto.createHash("sha256").update(descriptor.code).digest("hex").slice(0, 12);
		fs.writeFileSync(path.join(folder, `${label}-${sum}.wgsl`), descriptor.code);
		return createShaderModule.call(this, descriptor);
	};
}

// environment picks what the program may see: wasm_exec.js has 8 KiB for arguments and variables together, which a
// whole shell environment can exceed.
function environment(env) {
	const wanted = /^(FLINT_|REQUIRE_|UPDATE_|GO)|^(CI|HOME|PATH|PWD|TMPDIR|TZ|LANG)$/;
	return Object.fromEntries(Object.entries({ TMPDIR: os.tmpdir(), ...env }).filter(([name]) => wanted.test(name)));
}

// writeAll writes to a file descriptor before it returns. Node's own asynchronous write needs the event loop, and Go
// code that logs inside a JavaScript callback would wait for it there for ever.
function writeAll(fd, bytes) {
	for (let done = 0; done < bytes.length; ) {
		try {
			done += fs.writeSync(fd, bytes, done, bytes.length - done);
		} catch (error) {
			if (error.code !== "EAGAIN") throw error; // a full pipe: try again
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
		}
	}
	return bytes.length;
}

// countCalls keeps in globalThis.flintCalls how often Go has called a JavaScript function or constructor: the crossings
// that a test counts. Reads of properties, which delivering an event to Go takes, are not among them.
function countCalls(imports) {
	globalThis.flintCalls = 0;
	for (const name of ["valueCall", "valueInvoke", "valueNew"]) {
		const original = imports[`syscall/js.${name}`];
		imports[`syscall/js.${name}`] = (sp) => {
			globalThis.flintCalls++;
			original(sp);
		};
	}
}

async function main() {
	if (!program) die("usage: node_exec.cjs PROGRAM.wasm [ARGUMENT...]");
	const wasmExec = firstFile(path.join(__dirname, "wasm_exec.js")) ||
		path.join(execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim(), "lib", "wasm", "wasm_exec.js");
	const replay = firstFile(path.join(__dirname, "replay.js"), path.join(root, "web", "replay.js"));

	const asyncWrite = fs.write;
	globalThis.require = require;
	globalThis.path = path;
	globalThis.fs = {
		...fs,
		writeSync: (fd, bytes, ...rest) => (fd === 1 || fd === 2 ? writeAll(fd, bytes) : fs.writeSync(fd, bytes, ...rest)),
		write(fd, bytes, offset, length, position, callback) {
			if (fd !== 1 && fd !== 2) return asyncWrite(fd, bytes, offset, length, position, callback);
			try {
				callback(null, writeAll(fd, bytes.subarray(offset, offset + length)));
			} catch (error) {
				callback(error);
			}
		},
	};
	require(wasmExec);
	if (replay) vm.runInThisContext(fs.readFileSync(replay, "utf8"), { filename: replay });
	await openGPU();

	const go = new globalThis.Go();
	go.argv = process.argv.slice(2);
	go.env = environment(process.env);
	go.exit = (code) => process.exit(code);
	countCalls(go.importObject.gojs);
	const wasm = await WebAssembly.instantiate(fs.readFileSync(program), go.importObject);
	globalThis.wasm = wasm; // the WebGPU binding reaches Go's memory through it
	process.on("exit", (code) => {
		// Node leaves when nothing is pending: every goroutine is asleep. Resuming makes Go say so with its stacks.
		if (code === 0 && !go.exited) {
			go._pendingEvent = { id: 0 };
			go._resume();
		}
	});
	await go.run(wasm.instance);
}

main().catch((error) => die(error instanceof Mistake ? error.message : error.stack || error));
