//go:build !js

package main

import (
	"fmt"
	"os"
)

// main exists so that the rest of the package is vetted and tested on the host.
func main() {
	fmt.Fprintln(os.Stderr, "page runs in a browser: build it with GOOS=js GOARCH=wasm")
	os.Exit(2)
}
