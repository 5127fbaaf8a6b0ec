// Package gputest holds what tests of every room share: where the test data lies, which devices to run on,
// seeded inputs and tolerant comparison.
package gputest

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the folder that holds go.mod, found by walking up from the test's working folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("gputest: no go.mod above the working folder")
		}
		dir = parent
	}
}

// Shared returns the path of a file or folder of the shared test data (FLINT_SHARED, default ../shared beside the
// repository). A clone without it skips the test; REQUIRE_SHARED=1 turns the skip into a failure, so that CI cannot
// pass by testing nothing.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	base := os.Getenv("FLINT_SHARED")
	if base == "" {
		base = filepath.Join(Root(t), "..", "shared")
	}
	return need(t, filepath.Join(append([]string{base}, elem...)...))
}

// Reference returns the folder of one reference case (FLINT_REFERENCE, default ../shared/reference).
func Reference(t testing.TB, elem ...string) string {
	t.Helper()
	base := os.Getenv("FLINT_REFERENCE")
	if base == "" {
		return Shared(t, append([]string{"reference"}, elem...)...)
	}
	return need(t, filepath.Join(append([]string{base}, elem...)...))
}

func need(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("REQUIRE_SHARED") == "1" {
			t.Fatalf("test data is required (REQUIRE_SHARED=1) but missing: %v", err)
		}
		t.Skipf("test data is missing, skipped: %v", err)
	}
	return path
}
