//go:build !js

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

// program is one WebAssembly binary of the page. They are separate because ebiten and the DOM bindings in one binary
// cost more than both apart, and because each wants a global scope of its own.
type program struct {
	output, source string
}

var programs = []program{
	{"engine.wasm", "./wasm/worker"},
	{"page.wasm", "./wasm/page"},
	{"panel.wasm", "./wasm/panel"},
}

// The engine is what a visitor waits for before the model can load.
const (
	engineLimit       = 8_000_000 // bytes
	engineBrotliLimit = 2_000_000 // bytes at brotliBest
	brotliBest        = 11
	brotliFast        = 4
	leastCompressed   = 1024 // bytes: below, a compressed copy saves no packet
)

// Compiling patterns and rendering templates are not worth inlining: without, the engine is a tenth of a megabyte
// smaller.
const (
	templatesSmall = "-gcflags=github.com/ardanlabs/jinja=-l"
	patternsSmall  = "-gcflags=github.com/dlclark/regexp2/v2/syntax=-l"
)

// size is what one file of the page weighs, in bytes.
type size struct {
	raw, gzip, brotli int
}

// build brings web/ under root up to date: the three programs, Go's loader, and a compressed copy of each file that
// gains by it. Go's own build cache decides what is stale, by content. A table of sizes goes to out.
func build(ctx context.Context, root string, fast bool, out io.Writer) (map[string]size, error) {
	fmt.Fprintln(out, "building web/ ...")
	if err := compile(ctx, root); err != nil {
		return nil, err
	}
	level := brotliBest
	if fast {
		level = brotliFast
	}
	sizes, err := compressFolder(filepath.Join(root, "web"), filepath.Join(root, ".build", "compressed.json"), level)
	if err != nil {
		return nil, err
	}
	printSizes(out, sizes)
	if fast {
		return sizes, nil // a quick compression says nothing about the limits
	}
	return sizes, checkEngine(sizes["engine.wasm"])
}

// compile builds the programs into .build/ and puts those that changed into web/: an unchanged file keeps its time, so
// that browsers keep it too.
func compile(ctx context.Context, root string) error {
	built := filepath.Join(root, ".build")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", templatesSmall, patternsSmall, "-o", filepath.Join(".build", p.output), p.source)
		command.Dir = root
		command.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", p.source, err, output)
		}
		if err := copyChanged(filepath.Join(root, "web", p.output), filepath.Join(built, p.output)); err != nil {
			return err
		}
	}
	// The loader belongs to the compiler: another version's breaks in ways that look like our bugs.
	output, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	goroot := strings.TrimSpace(string(output))
	return copyChanged(filepath.Join(root, "web", "wasm_exec.js"), filepath.Join(goroot, "lib", "wasm", "wasm_exec.js"))
}

// copyChanged copies a file unless the target has the same content. The target is replaced whole: a browser never
// reads half of it.
func copyChanged(to, from string) error {
	want, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, want) {
		return nil
	}
	return replaceFile(to, want)
}

func replaceFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	partial := name + ".partial"
	if err := os.WriteFile(partial, content, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, name)
}

// packed says what a file was when its compressed copies were made.
type packed struct {
	Sum    string // SHA-256 of the file
	Level  int    // of brotli
	Gzip   int    // bytes
	Brotli int    // bytes
}

// compressFolder writes NAME.br and NAME.gz beside every file of the folder that gains by it, unless those on record
// are of the same content and at least as well compressed.
func compressFolder(folder, recordPath string, level int) (map[string]size, error) {
	record := map[string]packed{}
	if text, err := os.ReadFile(recordPath); err == nil {
		_ = json.Unmarshal(text, &record) // an unreadable record only costs the work again
	}
	sizes := map[string]size{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !gainsByCompression(name) || len(content) < leastCompressed {
			return nil
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		have := record[relative]
		if have.Sum != hex.EncodeToString(sum[:]) || have.Level < level || !copiesNewer(name) {
			have = packed{Sum: hex.EncodeToString(sum[:]), Level: level}
			if have.Brotli, have.Gzip, err = compressFile(name, content, level); err != nil {
				return err
			}
			record[relative] = have
		}
		sizes[relative] = size{len(content), have.Gzip, have.Brotli}
		return nil
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(record, func(name string, _ packed) bool { _, there := sizes[name]; return !there })
	text, err := json.MarshalIndent(record, "", "\t")
	if err != nil {
		return nil, err
	}
	return sizes, replaceFile(recordPath, text)
}

func gainsByCompression(name string) bool {
	switch filepath.Ext(name) {
	case ".wasm", ".js", ".css", ".html", ".json", ".svg", ".txt", ".md", ".jinja":
		return true
	}
	return false
}

// copiesNewer reports whether both compressed copies exist and are not older than the file, as the server demands.
func copiesNewer(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	for _, extension := range []string{".br", ".gz"} {
		if copied, err := os.Stat(name + extension); err != nil || copied.ModTime().Before(info.ModTime()) {
			return false
		}
	}
	return true
}

func compressFile(name string, content []byte, level int) (brotliSize, gzipSize int, err error) {
	var br, gz bytes.Buffer
	bw := brotli.NewWriterOptions(&br, brotli.WriterOptions{Quality: level, LGWin: 22})
	gw, err := gzip.NewWriterLevel(&gz, gzip.BestCompression)
	if err != nil {
		return 0, 0, err
	}
	for _, w := range []io.WriteCloser{bw, gw} {
		if _, err := w.Write(content); err != nil {
			return 0, 0, err
		}
		if err := w.Close(); err != nil {
			return 0, 0, err
		}
	}
	return br.Len(), gz.Len(), errors.Join(replaceFile(name+".br", br.Bytes()), replaceFile(name+".gz", gz.Bytes()))
}

func printSizes(out io.Writer, sizes map[string]size) {
	fmt.Fprintf(out, "%-20s %12s %12s %12s\n", "bytes", "raw", "gzip", "brotli")
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		s := sizes[name]
		fmt.Fprintf(out, "%-20s %12d %12d %12d\n", name, s.raw, s.gzip, s.brotli)
	}
}

// checkEngine holds the engine to its limits.
func checkEngine(engine size) error {
	if engine.raw > engineLimit {
		return fmt.Errorf("engine.wasm is %d bytes, the limit is %d: look for a new dependency with `go list -deps ./wasm/worker`", engine.raw, engineLimit)
	}
	if engine.brotli > engineBrotliLimit {
		return fmt.Errorf("engine.wasm is %d bytes in brotli, the limit is %d: look for embedded data or a new dependency", engine.brotli, engineBrotliLimit)
	}
	return nil
}

// isBuilt reports whether a file (a slash-separated name below the root) is an output of build.
func isBuilt(name string) bool {
	switch filepath.Ext(name) {
	case ".wasm", ".br", ".gz", ".partial":
		return strings.HasPrefix(name, "web/")
	}
	return name == "web/wasm_exec.js"
}

// dist builds web/ and copies it, with the demo models, to dist/, where every file stands as a host should serve it.
func dist(ctx context.Context, root string, out io.Writer) error {
	if _, err := build(ctx, root, false, out); err != nil {
		return err
	}
	target := filepath.Join(root, "dist")
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := copyTree(target, filepath.Join(root, "web")); err != nil {
		return err
	}
	demo := filepath.Join(root, "demo")
	if _, err := os.Stat(demo); err == nil {
		if err := copyTree(filepath.Join(target, "demo"), demo); err != nil {
			return err
		}
		record := filepath.Join(root, ".build", "compressed-demo.json")
		if _, err := compressFolder(filepath.Join(target, "demo"), record, brotliBest); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "dist/ is ready; try it with: go run . -dir dist")
	return nil
}

// copyTree copies the files of a folder that a page can ask for, with their times, which order each file before its
// compressed copies.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && name != from {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		return errors.Join(replaceFile(target, content), os.Chtimes(target, info.ModTime(), info.ModTime()))
	})
}
