//go:build !js

package main

import (
	"os"
	"path/filepath"
	"testing"
)

const good = `@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = x[id.x] + 1.0; }
`

func TestFolderIsCheckedWhole(t *testing.T) {
	folder := t.TempDir()
	if err := run(folder); err == nil {
		t.Error("an empty folder passes: nothing was checked")
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good.wgsl", good)
	if err := run(folder); err != nil {
		t.Error(err)
	}
	write("bad.wgsl", "@compute @workgroup_size(1) fn main() { let y = nothing; }")
	if err := run(folder); err == nil {
		t.Error("a module with an unknown name passes")
	}
	write("bad.wgsl", "fn main( {")
	if err := run(folder); err != nil {
		t.Errorf("one of two modules is beyond naga: %v", err)
	}
	write("worse.wgsl", "fn main( {")
	if err := run(folder); err == nil {
		t.Error("a check that understands one module of three passes")
	}
}
