//go:build !js

package main

import (
	"fmt"
	"os"
)

// main exists so that the package is vetted on the host, where Ebitengine would need X11.
func main() {
	fmt.Fprintln(os.Stderr, "panel runs in a browser: build it with GOOS=js GOARCH=wasm")
	os.Exit(2)
}
