// Runs program.wasm as Node would: files, working folder, environment and output are those of the process that started
// the browser, reached by synchronous requests, which a worker may make. Files can be read, not written.
"use strict";

const request = (method, name, parameters, { body, type } = {}) => {
	const xhr = new XMLHttpRequest();
	xhr.open(method, `${name}?${new URLSearchParams(parameters)}`, false);
	if (type) xhr.responseType = type;
	xhr.send(body);
	if (xhr.status === 200) return xhr.response;
	const text = type ? new TextDecoder().decode(xhr.response) : xhr.responseText;
	throw failure(text.trim() || `status ${xhr.status}`);
};

const failure = (code) => Object.assign(new Error(code), { code });

const config = JSON.parse(request("GET", "config", {}));

globalThis.process = {
	pid: 1,
	ppid: 0,
	getuid: () => 0,
	geteuid: () => 0,
	getgid: () => 0,
	getegid: () => 0,
	getgroups: () => [],
	umask: () => 0o22,
	cwd: () => config.cwd,
	chdir(folder) {
		const to = path.resolve(folder);
		if (!stat(to).isDirectory()) throw failure("ENOTDIR");
		config.cwd = to;
	},
};

globalThis.path = {
	resolve(...segments) {
		let parts = [];
		for (const segment of [config.cwd, ...segments]) {
			if (segment.startsWith("/")) parts = [];
			for (const part of segment.split("/")) {
				if (part === "..") parts.pop();
				else if (part !== "" && part !== ".") parts.push(part);
			}
		}
		return "/" + parts.join("/");
	},
};

const stat = (name) => {
	const { mode, size, mtimeMs, directory } = JSON.parse(request("GET", "stat", { path: path.resolve(name) }));
	return {
		mode, size, mtimeMs, atimeMs: mtimeMs, ctimeMs: mtimeMs,
		dev: 0, ino: 0, nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096, blocks: Math.ceil(size / 512),
		isDirectory: () => directory,
	};
};

const READ_AHEAD = 1 << 20; // bytes: small reads cost a request each otherwise
const open = new Map(); // descriptor -> {name, stat, position, start, bytes}, bytes being the read-ahead from start
let nextDescriptor = 3;

const opened = (fd) => {
	const file = open.get(fd);
	if (!file) throw failure("EBADF");
	return file;
};

const readAt = (file, position, length) => {
	const end = Math.min(position + length, file.stat.size);
	if (end <= position) return new Uint8Array(0);
	if (position < file.start || end > file.start + file.bytes.length) {
		file.start = position;
		file.bytes = new Uint8Array(request("GET", "read", { path: file.name, offset: position, length: Math.max(length, READ_AHEAD) }, { type: "arraybuffer" }));
	}
	return file.bytes.subarray(position - file.start, position - file.start + length);
};

const writeOut = (fd, bytes) => {
	if (fd !== 1 && fd !== 2) throw failure("EBADF");
	request("POST", "write", { fd }, { body: bytes.slice() });
	return bytes.length;
};

// The functions return or throw; the callbacks that Go passes are called below.
const functions = {
	open(name, flags) {
		if (flags & ~constants.O_DIRECTORY) throw failure("EROFS");
		const file = { name: path.resolve(name), stat: stat(name), position: 0, start: 0, bytes: new Uint8Array(0) };
		if (flags & constants.O_DIRECTORY && !file.stat.isDirectory()) throw failure("ENOTDIR");
		open.set(nextDescriptor, file);
		return nextDescriptor++;
	},
	close: (fd) => { open.delete(fd); },
	stat,
	lstat: stat,
	fstat: (fd) => opened(fd).stat,
	readdir: (name) => JSON.parse(request("GET", "list", { path: path.resolve(name) })),
	read(fd, buffer, offset, length, position) {
		if (fd === 0) return 0;
		const file = opened(fd);
		if (file.stat.isDirectory()) throw failure("EISDIR");
		const bytes = readAt(file, position ?? file.position, length);
		buffer.set(bytes, offset);
		if (position === null) file.position += bytes.length;
		return bytes.length;
	},
	write: (fd, buffer, offset, length) => writeOut(fd, buffer.subarray(offset, offset + length)),
	fsync: () => {},
};
for (const name of ["chmod", "chown", "fchmod", "fchown", "ftruncate", "lchown", "link", "mkdir", "rename", "rmdir", "symlink", "truncate", "unlink", "utimes"]) {
	functions[name] = () => { throw failure("EROFS"); };
}
functions.readlink = () => { throw failure("EINVAL"); };

const constants = { O_WRONLY: 1, O_RDWR: 2, O_CREAT: 0o100, O_EXCL: 0o200, O_TRUNC: 0o1000, O_APPEND: 0o2000, O_DIRECTORY: 0o200000 };
globalThis.fs = { constants, writeSync: writeOut };
for (const [name, f] of Object.entries(functions)) {
	globalThis.fs[name] = (...parameters) => {
		const callback = parameters.pop();
		let result;
		try {
			result = f(...parameters);
		} catch (error) {
			callback(error.code ? error : failure("EIO"));
			return;
		}
		callback(null, result);
	};
}
for (const level of ["log", "info", "warn", "error"]) {
	console[level] = (...values) => writeOut(2, new TextEncoder().encode(values.join(" ") + "\n"));
}

importScripts("wasm_exec.js");
importScripts("replay.js");

(async () => {
	const go = new Go();
	go.argv = config.argv;
	go.env = config.env;
	go.exit = (code) => request("POST", "exit", { code });
	const wasm = await WebAssembly.instantiateStreaming(fetch("program.wasm"), go.importObject);
	globalThis.wasm = wasm; // the WebGPU binding reaches Go's memory through it
	await go.run(wasm.instance);
})().catch((error) => request("POST", "failed", {}, { body: error.stack || String(error) }));
