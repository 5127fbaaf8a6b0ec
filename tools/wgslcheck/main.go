//go:build !js

// Command wgslcheck compiles every WGSL text of a folder with naga, a second compiler beside the browser's: what only
// one of them accepts fails on somebody's machine. The texts are whole shader modules, as node_exec.cjs writes them for
// FLINT_WGSL: kernels exist as bodies, snippets and headers that are joined when they run.
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
	var problems []error
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := check(string(text)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	fmt.Printf("wgslcheck: %d modules accepted, %d refused\n", len(names)-len(problems), len(problems))
	return errors.Join(problems...)
}

// check parses, lowers and validates a shader module.
func check(text string) (err error) {
	defer func() {
		// The compiler is young: a fault of its own is a finding like any other, with the module's name.
		if p := recover(); p != nil {
			err = fmt.Errorf("naga panicked: %v", p)
		}
	}()
	module, err := naga.Parse(text)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
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
