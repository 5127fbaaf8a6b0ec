//go:build !js

// Command wgslcheck compiles every WGSL text of a folder with naga, a second opinion beside the browser's compiler: what
// only one of them accepts fails on somebody's machine. The texts are whole shader modules, as node_exec.cjs writes them
// for FLINT_WGSL: kernels exist as bodies, snippets and headers that are joined when they run.
//
// The Go port of naga is young. Texts that its parser does not know or that make it panic (v0.17.14: hexadecimal floats
// without a point, subgroup functions of vectors) are counted, not refused; the run fails when they are the majority.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gogpu/naga"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: wgslcheck FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "wgslcheck:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.wgsl"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no .wgsl in %s: make test-dawn fills it", folder)
	}
	var refused []error
	beyond := map[string]int{} // by naga's words
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		err = check(string(text))
		if unknown := (notUnderstood{}); errors.As(err, &unknown) {
			beyond[unknown.Error()]++
		} else if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", name, err))
		}
	}
	accepted := len(names) - len(refused)
	for words, n := range beyond {
		accepted -= n
		fmt.Printf("wgslcheck: %d modules not understood: %s\n", n, words)
	}
	fmt.Printf("wgslcheck: %d modules accepted, %d refused, %d not understood\n", accepted, len(refused), len(names)-accepted-len(refused))
	if len(refused) == 0 && 2*accepted < len(names) {
		return fmt.Errorf("naga understands only %d of %d modules: this check proves nothing any more", accepted, len(names))
	}
	return errors.Join(refused...)
}

// notUnderstood is an error of a text that naga cannot judge.
type notUnderstood struct{ words string }

func (e notUnderstood) Error() string { return e.words }

// check parses, lowers and validates a shader module.
func check(text string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = notUnderstood{fmt.Sprintf("panic: %v", p)}
		}
	}()
	module, err := naga.Parse(text)
	if err != nil {
		return notUnderstood{err.Error()}
	}
	lowered, err := naga.LowerWithSource(module, text)
	if err != nil {
		return fmt.Errorf("lower: %w", err)
	}
	problems, err := naga.Validate(lowered)
	for _, problem := range problems {
		err = errors.Join(err, fmt.Errorf("validate: %v", problem))
	}
	return err
}
