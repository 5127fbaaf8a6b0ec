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
	for name, text := range map[string]string{
		"syntax":  "fn main( {",
		"unknown": "@compute @workgroup_size(1) fn main() { let y = nothing; }",
	} {
		write("bad.wgsl", text)
		if err := run(folder); err == nil {
			t.Errorf("%s: a bad module passes", name)
		}
	}
}
